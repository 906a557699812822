// Package scanfloor keeps the scan floors of each consumer group. A scan floor is a time: a scan of
// the index (group_id, ready_at) finds no cursor below it. Scans begin at the floor, so they stay
// short.
//
// Why it exists. While a session of the database holds a snapshot, Postgres keeps old index entries
// of cursors that were due earlier. These entries are at the low end of the index, where each scan
// begins. The entries of leases that ended early are where a scan for the next due cursor begins.
// So each group has two floors. No cursor is due before the first floor. No cursor becomes due
// between now and the second floor. A scan begins at the floors, and its result moves the floors.
//
// Why a floor hides no due cursor.
//
//  1. Suppose a scan moves a floor above a cursor that the scan did not see. Then the cursor was
//     committed after the scan began. The commit was more than Margin after the statement that made
//     the cursor ready, because ready_at is the time of that statement.
//  2. This instance and the other instances announce each cursor that they make ready. The
//     announcement contains ready_at and lowers the floor to this time. An announcement without a
//     time lowers the floor to unknownInstantMargin before now.
//  3. An announcement may be missing, because its instance died before it, or late. So each group
//     makes a scan without floors every fullScanInterval, and after each resync.
//
// The package keeps the floors in memory and runs no SQL. Other packages below pkg/engine/store import this
// package.
package scanfloor

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// Margin is the time between the statement that makes a cursor ready and its commit up to which
	// no floor hides the cursor.
	Margin = 20 * time.Millisecond
	// unknownInstantMargin is how far before now an announcement without a time lowers a floor.
	unknownInstantMargin = 2 * time.Second
	// fullScanInterval is the time between two scans of a group without floors.
	fullScanInterval = time.Minute
	// claimsPerMove is the number of claims after which a claim moves a floor. Each claim leaves a
	// few index entries that the next claims must skip.
	claimsPerMove = 8
	// maxGroups bounds the table. A full table is cleared. Then the next scan of each group uses no
	// floors.
	maxGroups = 100_000
	// clockTolerance bounds the error of floor.clock. A time more than clockTolerance after
	// floor.clock is in the future.
	clockTolerance = time.Second
	// keepResets is how long a reset is kept. A floor that no scan has moved for keepResets is not
	// used.
	keepResets = 2 * fullScanInterval
	maxResets  = 256
)

// Floors holds the floors of the groups that were scanned. It is safe for concurrent use.
type Floors struct {
	mu     sync.Mutex
	groups map[int64]*floor
}

// floor is the state of one group. Times are by the clock of the database unless a field says that
// they are local. Zero means unknown.
type floor struct {
	due, next time.Time
	// databaseNow is the clock of the database at the local time learnedAt.
	databaseNow, learnedAt time.Time
	// began is the local time at which the last scan that moved the floor began.
	began time.Time
	// fullScanAt is the local time after which the next scan uses no floors.
	fullScanAt time.Time
	claims     int
	// resets are the times to which announcements after began lower due. nextReset is the local
	// time of the last event that lowered next.
	resets    floorResets
	nextReset time.Time
}

// Scan says where a scan begins. An invalid timestamp means the beginning of the index.
type Scan struct {
	Due, Next pgtype.Timestamptz
	// Move is set if the caller must pass the result of the scan to Learn.
	Move bool

	began time.Time // local
	floor *floor
}

// Observation is the result of a scan, by the clock of the database. No cursor is due before Due,
// and no cursor becomes due between Now and Next. Next is zero if the scan did not search for the
// next due cursor.
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

// Learn moves the floors of group to the result of scan. If a scan that began later has already
// moved the floors, Learn only lowers the first floor, and only after a scan without floors.
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

// clock returns the clock of the database at a local time, or slightly less. Its result is only
// valid after the first Learn.
func (g *floor) clock(at time.Time) time.Time { return g.databaseNow.Add(at.Sub(g.learnedAt)) }

// Ready lowers the floors to the times of cursors that an instance made ready, now or in the
// future.
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

// Leased lowers the second floor to the end of a lease that this instance took. A concurrent scan
// cannot raise the floor above this end, because its Next is not later than the end of a lease that
// begins with the scan.
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

// Forget drops the floors of group, so that the next scan of the group uses no floors.
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

// floorReset is a time to which the first floor must be lowered. noticed is the local time of the
// event.
type floorReset struct{ noticed, instant time.Time }

// floorResets are the valid resets, in the order in which they were noticed. A new reset replaces
// earlier resets with a higher instant. So instants ascend too, and the first reset is the lowest.
type floorResets []floorReset

// add adds a reset. Beyond maxResets it merges the two oldest resets into one with the lower
// instant and the later noticed.
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

// dropBefore removes the resets that were noticed before a local time.
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
