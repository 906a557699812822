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

// parkedRow is what a row says. It holds until the next row of its instance, queue and group. Because an
// instance that has crashed writes none, it holds at most for parkedInterval after its own time.
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

// Parked returns the waiting requests in the buckets of a Range, the newest bucket first. Errors:
// CodeUnavailable.
func (r *Reader) Parked(ctx context.Context, span Range, f Filter) ([]Parked, error) {
	unwritten, err := marshal(r.unwritten(ctx, span).processes())
	if err != nil {
		return nil, err
	}
	rows, err := postgres.Collect(ctx, r.pool, sqlParked, pgx.RowToStructByName[parkedRow], span.From.Add(-span.Bucket-parkedInterval-5*time.Minute), span.To,
		postgres.LikePatterns(f.Allowed), f.Queue, f.Group, int64(maxParkedRows), unwritten)
	if err != nil {
		return nil, postgres.Wrapf(err, "reading the waiting requests of the history")
	}
	return fillParked(span, rows), nil
}

// fillParked carries what the rows say forward to the ends of the buckets. The newest row comes first. A row that
// comes twice counts once.
func fillParked(span Range, rows []parkedRow) []Parked {
	type series struct {
		instance     [16]byte
		queue, group string
	}
	type place struct {
		at       int64
		queue    string
		hostname string
		pid      int64
	}
	now, sums := map[series]*parkedRow{}, map[place]int64{}
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
			sums[place{at.Unix(), row.Queue, row.Hostname, row.PID}] += row.Parked
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
