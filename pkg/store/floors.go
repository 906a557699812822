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
// A floor is a matter of cost, and must not hide anything. What a look did not see,
// and yet lies below the floor it leaves, was committed later than the look, and more
// than floorMargin after the statement that made it ready, whose instant ready_at is.
// So whatever this store or another instance makes ready is told with that instant,
// and lowers the floor to it; without one, by heardMargin. What is not told (its
// instance died before that, or the bell is on its way) is found by the look without
// floors that each group makes every floorless, and after each doubt.
const (
	floorMargin = 20 * time.Millisecond
	heardMargin = 2 * time.Second
	floorless   = time.Minute
	// claimsPerLook is how many claims use a floor before one moves it: each leaves
	// a few entries that the next ones walk.
	claimsPerLook = 8
	maxFloors     = 100_000
	// ahead is how far beyond our idea of the database's clock an instant lies that is
	// not there yet.
	ahead = time.Second
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
	// began is the local clock at the beginning of the look that moved it last.
	began time.Time
	// floorless is when the next look goes without.
	floorless time.Time
	claims    int
	// lowered is what was made due since began, by the database's clock, and
	// loweredNext when something was done that concerns next, by the local one.
	lowered     lowerings
	loweredNext time.Time
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
	v.due, v.next = g.start(now), timestamp(g.next)
	return v
}

// start returns where looks for what is due begin.
func (g *floor) start(now time.Time) pgtype.Timestamptz {
	if g.due.IsZero() || now.Sub(g.began) > keepLowerings {
		return pgtype.Timestamptz{}
	}
	return timestamp(g.lowered.below(g.due))
}

func timestamp(at time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: at, Valid: !at.IsZero()}
}

// found is what a look found, by the database's clock: nothing is due before due,
// nothing between now and next (zero: it did not look).
type found struct{ now, due, next time.Time }

// learn moves the floors of group to what the look that began at v found. Of one that
// began before another that was learnt from, only what it saw without a floor counts.
func (f *floors) learn(group int64, v view, look found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.m[group]
	switch {
	case g == nil || g != v.of:
		return
	case v.began.Before(g.began):
		if !v.due.Valid {
			g.due = earlier(g.due, look.due)
		}
		return
	}
	g.due = earlier(look.due, look.now.Add(-floorMargin))
	if !look.next.IsZero() {
		g.next = look.next
	}
	if g.loweredNext.After(v.began) {
		g.next = time.Time{}
	}
	g.databaseNow, g.at, g.began = look.now, time.Now(), v.began
	g.lowered.forget(v.began)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// clock returns the database's clock at a local instant, or a little less. It is only
// right once something was learnt.
func (g *floor) clock(at time.Time) time.Time { return g.databaseNow.Add(at.Sub(g.at)) }

// ready lowers floors to what this store or others made ready, now or in a while.
func (f *floors) ready(ready ...queue.Ready) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, r := range ready {
		g := f.m[r.Group]
		switch {
		case g == nil:
		case r.At.IsZero():
			g.lowered.add(now, g.clock(now).Add(-heardMargin))
			g.next, g.loweredNext = time.Time{}, now
		default:
			g.lowered.add(now, r.At)
			if r.In > 0 || r.At.After(g.clock(now).Add(ahead)) {
				g.next, g.loweredNext = earlier(g.next, r.At), now
			}
		}
	}
}

// leased lowers floors to the end of a lease that this store took. No look that is
// on its way overlooks one: what is next is no later than a lease taken now.
func (f *floors) leased(group int64, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.m[group]; g != nil {
		g.next = earlier(g.next, until)
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
	return g.start(time.Now())
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
