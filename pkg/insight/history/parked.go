package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// Parked is how many requests of a process waited for a queue at the end of a bucket.
type Parked struct {
	At       time.Time
	Queue    string
	Hostname string
	PID      int64
	Count    int64
}

// parkedRow is a row with a number of waiting requests. The next row of the same instance, queue and group replaces the
// number. If an instance has crashed and writes no row, its number ends at until.
type parkedRow struct {
	At            time.Time
	Minutes       int64
	Instance      [16]byte
	Queue         string
	ConsumerGroup string
	Parked        int64
	Hostname      string
	PID           int64 `db:"pid"`
}

func (r *parkedRow) until() time.Time {
	return r.At.Add(time.Duration(r.Minutes)*time.Minute + parkedInterval + 5*time.Minute)
}

// Parked returns the numbers of waiting requests in the buckets of span, the newest bucket first. Errors:
// CodeUnavailable.
func (r *Reader) Parked(ctx context.Context, span Range, f Filter) ([]Parked, error) {
	unwritten, err := marshal(r.unwritten(ctx, span).processes())
	if err != nil {
		return nil, err
	}
	rows, err := postgres.Collect(ctx, r.pool, sqlParked, pgx.RowToStructByName[parkedRow], span.From.Add(-span.Bucket-parkedInterval-5*time.Minute), span.To,
		postgres.LikePatterns(f.Allowed), f.queues(), f.Group, int64(maxParkedRows), unwritten)
	if err != nil {
		return nil, postgres.Wrapf(err, "reading the waiting requests of the history")
	}
	return fillParked(span, rows), nil
}

// fillParked computes the number of waiting requests at the end of each bucket, from the newest row before that end.
// The rows are in order, the newest first. A row that is there twice counts once.
func fillParked(span Range, rows []parkedRow) []Parked {
	type series struct {
		instance     [16]byte
		queue, group string
	}
	type bucketKey struct {
		at       int64
		queue    string
		hostname string
		pid      int64
	}
	now, sums := map[series]*parkedRow{}, map[bucketKey]int64{}
	for at := span.From; at.Before(span.To); at = at.Add(span.Bucket) {
		end := at.Add(span.Bucket)
		if end.After(span.To) {
			end = span.To
		}
		for len(rows) > 0 && rows[len(rows)-1].At.Before(end) {
			row := &rows[len(rows)-1]
			now[series{row.Instance, row.Queue, row.ConsumerGroup}] = row
			rows = rows[:len(rows)-1]
		}
		for key, row := range now {
			if row.Parked == 0 || row.until().Before(end) {
				delete(now, key)
				continue
			}
			sums[bucketKey{at.Unix(), row.Queue, row.Hostname, row.PID}] += row.Parked
		}
	}
	found := make([]Parked, 0, len(sums))
	for p, n := range sums {
		found = append(found, Parked{At: time.Unix(p.at, 0).UTC(), Queue: p.queue, Hostname: p.hostname, PID: p.pid, Count: n})
	}
	slices.SortFunc(found, func(a, b Parked) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.PID, b.PID))
	})
	return found
}

// WithParked adds the missing buckets of queues with waiting requests. It also returns the number of waiting requests in each
// bucket.
func WithParked(found []Bucket, parked []Parked) ([]Bucket, map[At]int64) {
	waiting, known := map[At]int64{}, map[At]bool{}
	for i := range found {
		known[At{Unix: found[i].At.Unix(), Queue: found[i].Queue}] = true
	}
	for i := range parked {
		at := At{Unix: parked[i].At.Unix(), Queue: parked[i].Queue}
		waiting[at] += parked[i].Count
		if !known[at] {
			known[at] = true
			found = append(found, Bucket{At: parked[i].At, Queue: parked[i].Queue})
		}
	}
	slices.SortStableFunc(found, func(a, b Bucket) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Queue, b.Queue))
	})
	return found, waiting
}
