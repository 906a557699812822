package totals

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlQueues = sql.Query("insight/totals/queues")
	sqlGroups = sql.Query("insight/totals/groups")
	sqlPage   = sql.Query("insight/totals/page")
)

// pageSize is how many partitions one statement counts.
const pageSize = 20_000

// sums are the sums of a pass by the keys of queues and groups.
type sums struct {
	queues map[int64]*QueueSums
	groups map[int64]*GroupSums
}

// count makes a pass. It lists queues and groups at the end: then all that were made before the first page are in the lists.
// Errors: CodeUnavailable.
func count(ctx context.Context, pool *postgres.Pool, lateAfter time.Duration) (*Snapshot, error) {
	s := &Snapshot{began: time.Now()}
	all := sums{queues: map[int64]*QueueSums{}, groups: map[int64]*GroupSums{}}
	for after, more := int64(0), true; more; {
		at, upto, err := all.page(ctx, pool, after)
		if err != nil {
			return nil, postgres.Wrapf(err, "counting the messages of all queues")
		}
		if s.At.IsZero() {
			s.At = at
		}
		after, more = upto, upto != 0
	}
	if err := all.list(ctx, pool, lateAfter, s); err != nil {
		return nil, postgres.Wrapf(err, "listing all queues and consumer groups")
	}
	s.Took = time.Since(s.began)
	return s, nil
}

// page adds the partitions after one. It returns the instant and the last partition; 0: it was the last page.
func (all *sums) page(ctx context.Context, pool *postgres.Pool, after int64) (at time.Time, upto int64, err error) {
	_, err = postgres.Collect(ctx, pool, sqlPage, func(row pgx.CollectableRow) (none struct{}, err error) {
		var now time.Time
		var last, ofQueue, ofGroup, partitions, dead int64
		var q QueueSums
		var g GroupSums
		m := &q.Messages
		err = row.Scan((*zeronull.Timestamptz)(&now), (*zeronull.Int8)(&last), (*zeronull.Int8)(&ofQueue), (*zeronull.Int8)(&ofGroup),
			&partitions, &m.Total, &m.Pending, &m.Processing, &dead, &g.Lagging, &g.Lag, &g.Due, &g.Leased, &g.Resting, &g.Failing, &g.Held,
			(*zeronull.Timestamptz)(&g.Oldest), (*zeronull.Timestamptz)(&g.OldestDue), (*zeronull.Timestamptz)(&g.ConsumedAt))
		switch {
		case ofGroup != 0:
			g.Partitions, g.DeadLetters = partitions, dead
			of(all.groups, ofGroup).add(&g)
		case ofQueue != 0:
			q.Partitions, q.Oldest, m.Dead = partitions, g.Oldest, dead
			of(all.queues, ofQueue).add(&q)
		default:
			at, upto = now, last
		}
		return none, err
	}, after, int64(pageSize))
	return at, upto, err
}

// of returns the sums of a key.
func of[K comparable, T any](all map[K]*T, key K) *T {
	if all[key] == nil {
		all[key] = new(T)
	}
	return all[key]
}

// list sets the queues and the groups that exist.
func (all *sums) list(ctx context.Context, pool *postgres.Pool, lateAfter time.Duration, s *Snapshot) error {
	type listed struct {
		Group
		in   int64
		kept bool
	}
	groups, err := postgres.Collect(ctx, pool, sqlGroups, func(row pgx.CollectableRow) (g listed, err error) {
		var key int64
		err = row.Scan(&key, &g.in, &g.Name, &g.Mode, (*zeronull.Timestamptz)(&g.StartAt), &g.CreatedAt, &g.Paused, &g.Joining, &g.kept)
		g.GroupSums = *of(all.groups, key)
		return g, err
	})
	if err != nil {
		return err
	}
	byKey := map[int64]int{}
	var late []time.Duration // of each queue, the age from which a group is late; 0: never
	s.Queues, err = postgres.Collect(ctx, pool, sqlQueues, func(row pgx.CollectableRow) (q Queue, err error) {
		var key int64
		var after time.Duration
		err = row.Scan(&key, &q.ID, &q.Name, &q.Namespace, &q.Task, &q.CreatedAt, &q.Paused, (*postgres.Seconds)(&after))
		late = append(late, after)
		q.QueueSums = *of(all.queues, key)
		byKey[key] = len(byKey)
		return q, err
	}, lateAfter.Seconds())
	for i := range groups {
		g := &groups[i]
		at, exists := byKey[g.in]
		if !exists || g.kept && g.Partitions == 0 {
			continue
		}
		q := &s.Queues[at]
		q.Groups, q.DeadLetters, q.Failing = q.Groups+1, q.DeadLetters+g.DeadLetters, q.Failing+g.Failing
		g.Queue, g.QueuePaused = q.Name, q.Paused
		g.Late = late[at] > 0 && s.Age(g.OldestDue) >= late[at] && !g.Paused && !q.Paused
		q.Late = q.Late || g.Late
		s.Groups = append(s.Groups, g.Group)
	}
	slices.SortFunc(s.Queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Groups, func(a, b Group) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Name, b.Name)) })
	return err
}
