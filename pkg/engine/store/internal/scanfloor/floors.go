// Package scanfloor remembers, for each consumer group, below which instants a scan of the index
// (group_id, ready_at) finds nothing, so that scans stay short.
//
// Why it exists. While a session of the database holds a snapshot, Postgres keeps the index entries
// of cursors that were due and are done. They lie at the low end of the index, where each scan
// begins. The entries of leases that ended early lie where a scan for the next due instant begins.
// So each group has two floors: no cursor is due before the first, and no cursor becomes due
// between now and the second. A scan begins at the floors, and its result moves them.
//
// Why a floor hides nothing.
//
//  1. Suppose a scan does not see a cursor that lies below the floor the scan leaves. Then the cursor
//     was committed after the scan began, and more than Margin after the statement that made it
//     ready, because ready_at is the instant of that statement.
//  2. This instance and its peers announce each cursor they make ready. The announcement carries
//     ready_at and lowers the floor to it. An announcement without an instant lowers the floor by
//     unknownInstantMargin.
//  3. An announcement may be missing: its instance died before it, or it is still on its way. Each
//     group makes a scan without floors every fullScanInterval, and after each resync.
//
// The package is in memory and knows no table. It is imported by the other packages below pkg/engine/store.
package scanfloor

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// Margin is how much longer than its statement a commit may take without being hidden by a floor.
	Margin = 20 * time.Millisecond
	// unknownInstantMargin is how far an announcement without an instant lowers a floor.
	unknownInstantMargin = 2 * time.Second
	// fullScanInterval is the time between two scans of a group without floors.
	fullScanInterval = time.Minute
	// claimsPerMove is how many claims use a floor before one of them moves it. Each claim leaves a
	// few index entries that the next claims walk over.
	claimsPerMove = 8
	// maxGroups bounds the table. A full table is emptied: the next scan of each group has no floors.
	maxGroups = 100_000
	// clockTolerance bounds the error of our idea of the database's clock: an instant further ahead
	// is in the future.
	clockTolerance = time.Second
	// keepResets is how long a reset is kept. A floor that no scan has moved for so long counts as
	// none.
	keepResets = 2 * fullScanInterval
	maxResets  = 256
)

// Floors holds the floors of the groups that were scanned. It is safe for concurrent use.
type Floors struct {
	mu     sync.Mutex
	groups map[int64]*floor
}

// floor is the state of one group. Instants are by the database's clock unless a field says otherwise.
// Zero means unknown.
type floor struct {
	due, next time.Time
	// databaseNow is the database's clock at the local instant learnedAt.
	databaseNow, learnedAt time.Time
	// began is the local instant at which the scan that moved the floor last began.
	began time.Time
	// fullScanAt is the local instant after which the next scan uses no floors.
	fullScanAt time.Time
	claims     int
	// resets are the instants that became due since began. nextReset is the local instant of the
	// last event that lowered next.
	resets    floorResets
	nextReset time.Time
}

// Scan says where a scan begins. An invalid timestamp means: at the beginning of the index.
type Scan struct {
	Due, Next pgtype.Timestamptz
	// Move: this scan must report what it saw, to move the floors.
	Move bool

	began time.Time // local
	floor *floor
}

// Observation is what a scan saw, by the database's clock: no cursor is due before Due, and none
// becomes due between Now and Next. A zero Next means that the scan did not look ahead.
type Observation struct{ Now, Due, Next time.Time }

// New returns Floors without any group.
func New() *Floors { return &Floors{groups: map[int64]*floor{}} }

// Begin returns where a scan of group begins.
func (f *Floors) Begin(group int64) Scan {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	g := f.groups[group]
	if g == nil {
		if len(f.groups) >= maxGroups {
			clear(f.groups)
		}
		g = &floor{}
		f.groups[group] = g
	}
	g.claims++
	if now.After(g.fullScanAt) {
		g.fullScanAt, g.claims = now.Add(fullScanInterval), 0
		return Scan{Move: true, began: now, floor: g}
	}
	scan := Scan{Move: g.claims >= claimsPerMove, began: now, floor: g}
	if scan.Move {
		g.claims = 0
	}
	scan.Due, scan.Next = g.start(now), timestamp(g.next)
	return scan
}

// start returns where a scan for due cursors begins.
func (g *floor) start(now time.Time) pgtype.Timestamptz {
	if g.due.IsZero() || now.Sub(g.began) > keepResets {
		return pgtype.Timestamptz{}
	}
	return timestamp(g.resets.lowest(g.due))
}

func timestamp(at time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: at, Valid: !at.IsZero()}
}

// Learn moves the floors of group to what scan saw. If a scan that began later has already moved
// them, only the result of a scan without floors counts.
func (f *Floors) Learn(group int64, scan Scan, saw Observation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.groups[group]
	switch {
	case g == nil || g != scan.floor:
		return
	case scan.began.Before(g.began):
		if !scan.Due.Valid {
			g.due = earlier(g.due, saw.Due)
		}
		return
	}
	g.due = earlier(saw.Due, saw.Now.Add(-Margin))
	if !saw.Next.IsZero() {
		g.next = saw.Next
	}
	if g.nextReset.After(scan.began) {
		g.next = time.Time{}
	}
	g.databaseNow, g.learnedAt, g.began = saw.Now, time.Now(), scan.began
	g.resets.dropBefore(scan.began)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// clock returns the database's clock at a local instant, or a little less. It is meaningless before
// the first Learn.
func (g *floor) clock(at time.Time) time.Time { return g.databaseNow.Add(at.Sub(g.learnedAt)) }

// Ready lowers the floors to what this instance or a peer made ready, now or in the future.
func (f *Floors) Ready(ready ...queue.Ready) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, r := range ready {
		g := f.groups[r.Group]
		switch {
		case g == nil:
		case r.At.IsZero():
			g.resets.add(now, g.clock(now).Add(-unknownInstantMargin))
			g.next, g.nextReset = time.Time{}, now
		default:
			g.resets.add(now, r.At)
			if r.In > 0 || r.At.After(g.clock(now).Add(clockTolerance)) {
				g.next, g.nextReset = earlier(g.next, r.At), now
			}
		}
	}
}

// Leased lowers the floors to the end of a lease that this instance took. A concurrent scan misses
// no lease: its Next is not later than the end of a lease taken at its instant.
func (f *Floors) Leased(group int64, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.groups[group]; g != nil {
		g.next = earlier(g.next, until)
	}
}

// Lowest returns where a scan for due cursors of group begins, if the scan moves no floor.
func (f *Floors) Lowest(group int64) pgtype.Timestamptz {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.groups[group]
	if g == nil {
		return pgtype.Timestamptz{}
	}
	return g.start(time.Now())
}

// Forget drops the floors of group, so that its next scan has none.
func (f *Floors) Forget(group int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.groups, group)
}

// ForgetAll drops the floors of all groups.
func (f *Floors) ForgetAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.groups)
}

// floorReset is an instant down to which floors must go. The event was noticed at a local instant.
type floorReset struct{ noticed, instant time.Time }

// floorResets are the resets that may still count, in the order in which they were noticed. A later
// reset with a lower instant replaces the resets before it, so instants ascend as well: the first
// reset is the lowest.
type floorResets []floorReset

// add adds a reset. Beyond maxResets it merges the two oldest into one with the lower instant and
// the later time.
func (l *floorResets) add(noticed, instant time.Time) {
	l.dropBefore(noticed.Add(-keepResets))
	kept := *l
	for len(kept) > 0 && !kept[len(kept)-1].instant.Before(instant) {
		kept = kept[:len(kept)-1]
	}
	if len(kept) >= maxResets {
		kept[1].instant = kept[0].instant
		kept = kept[1:]
	}
	kept = append(kept, floorReset{noticed, instant})
	*l = kept
}

// dropBefore removes the resets that were noticed before a local instant.
func (l *floorResets) dropBefore(instant time.Time) {
	for len(*l) > 0 && (*l)[0].noticed.Before(instant) {
		*l = (*l)[1:]
	}
}

// lowest returns the lower of an instant and the lowest reset.
func (l floorResets) lowest(instant time.Time) time.Time {
	if len(l) == 0 {
		return instant
	}
	return earlier(instant, l[0].instant)
}
