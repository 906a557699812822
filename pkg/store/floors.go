package store

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// While somebody holds a snapshot, what was due and is done stays in the index by
// ready_at, at its low end, where every look begins; and so do leases that ended
// early, at the place where a look for the next instant begins. So each group has
// two floors: nothing is due before the one, and nothing becomes due between now
// and the other. Looks begin there and move them.
//
// A floor is a matter of cost, and must not hide anything. ready_at is the clock of
// the statement that sets it, so what comes below a floor was committed later than
// floorMargin after that; this store notices when something of its own took so long,
// and lowers the floors. What others did is announced, and lowers them by
// heardMargin. Whatever escapes both (another instance that needed longer, or died
// before it announced anything) is found by the look without floors that each group
// makes every floorless, and after each doubt.
const (
	floorMargin = 100 * time.Millisecond
	heardMargin = 2 * time.Second
	floorless   = 10 * time.Second
	// claimsPerLook is how many claims use a floor before one moves it: each leaves
	// a few entries that the next ones walk.
	claimsPerLook = 64
	maxFloors     = 100_000
)

// floors hold the floors of the groups that were looked at.
type floors struct {
	mu sync.Mutex
	m  map[int64]*floor
}

// floor is that of one group. Instants of the database's clock are zero when nothing is
// known.
type floor struct {
	due, next time.Time
	// databaseNow was the database's clock at the instant at.
	databaseNow, at time.Time
	// floorless is when the next look goes without.
	floorless time.Time
	claims    int
	// lowered and loweredNext are when somebody else did something that concerns due
	// or next, by the local clock.
	lowered, loweredNext time.Time
	// behind is how far before its commit that may have been.
	behind time.Duration
}

// view is where a look begins.
type view struct {
	due, next pgtype.Timestamptz
	// look: this claim is to move the floors.
	look bool
	// began is the local clock.
	began time.Time
	// of is the floor it moves, unless that was forgotten meanwhile.
	of *floor
}

func newFloors() *floors { return &floors{m: map[int64]*floor{}} }

// begin returns where a look at group begins.
func (f *floors) begin(group int64) view {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	g := f.m[group]
	if g == nil {
		if len(f.m) >= maxFloors {
			clear(f.m)
		}
		g = &floor{}
		f.m[group] = g
	}
	g.claims++
	if now.After(g.floorless) {
		g.floorless, g.claims = now.Add(floorless), 0
		return view{look: true, began: now, of: g}
	}
	v := view{look: g.claims >= claimsPerLook, began: now, of: g}
	if v.look {
		g.claims = 0
	}
	v.due = pgtype.Timestamptz{Time: g.due, Valid: !g.due.IsZero()}
	v.next = pgtype.Timestamptz{Time: g.next, Valid: !g.next.IsZero()}
	return v
}

// found is what a look found, by the database's clock: nothing is due before due,
// nothing between now and next (zero: it did not look).
type found struct{ now, due, next time.Time }

// learn moves the floors of group to what the look that began at v found.
func (f *floors) learn(group int64, v view, look found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.m[group]
	if g == nil || g != v.of {
		return
	}
	g.due = look.due.Add(-floorMargin)
	if g.lowered.After(v.began) {
		g.lower(look.now.Add(-g.behind))
	} else {
		g.behind = 0
	}
	if !look.next.IsZero() {
		g.next = look.next
	}
	if g.loweredNext.After(v.began) {
		g.next = time.Time{}
	}
	g.databaseNow, g.at = look.now, time.Now()
}

// clock returns the database's clock, or a little less. It is only right once
// something was learnt.
func (g *floor) clock(now time.Time) time.Time { return g.databaseNow.Add(now.Sub(g.at)) }

// heard lowers the floor to what was committed just now, by a statement that began
// so long before.
func (g *floor) heard(now time.Time, before time.Duration) {
	g.lowered, g.behind = now, max(g.behind, before)
	g.lower(g.clock(now).Add(-before))
}

func (g *floor) lower(to time.Time) {
	if to.Before(g.due) {
		g.due = to
	}
}

func (g *floor) lowerNext(to time.Time) {
	if to.Before(g.next) {
		g.next = to
	}
}

// announced lowers floors to what this store made ready in a while.
func (f *floors) announced(ready []queue.Ready) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, r := range ready {
		if g := f.m[r.Group]; g != nil && r.In > 0 {
			g.loweredNext = now
			g.lowerNext(g.clock(now).Add(r.In - floorMargin))
		}
	}
}

// leased lowers floors to the end of a lease that this store took.
func (f *floors) leased(group int64, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.m[group]; g != nil {
		g.lowerNext(until)
	}
}

// heard lowers floors to what others may have made ready, now or in a while.
func (f *floors) heard(ready []queue.Ready) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, r := range ready {
		if g := f.m[r.Group]; g != nil {
			g.heard(now, heardMargin)
			g.next, g.loweredNext = time.Time{}, now
		}
	}
}

// took lowers all floors when something of this store took so long that what it
// made ready may lie below them.
func (f *floors) took(d time.Duration) {
	if d < floorMargin/2 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, g := range f.m {
		g.heard(now, d+floorMargin)
	}
}

// lowest returns the floor of what is due in group, for a look that moves none.
func (f *floors) lowest(group int64) pgtype.Timestamptz {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.m[group]
	if g == nil {
		return pgtype.Timestamptz{}
	}
	return pgtype.Timestamptz{Time: g.due, Valid: !g.due.IsZero()}
}

// forget makes the next look at group, or at each (0), one without floors.
func (f *floors) forget(group int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if group == 0 {
		clear(f.m)
	} else {
		delete(f.m, group)
	}
}
