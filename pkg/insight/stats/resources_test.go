package stats_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func TestAnEmptyServerHasNothing(t *testing.T) {
	r := newFixture(t)
	queues, err := r.Queues(t.Context(), stats.QueueFilter{})
	require.NoError(t, err)
	require.Empty(t, queues)
	tags, err := r.Namespaces(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, tags)
	o, err := r.Overview(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, stats.Overview{}, o)
	_, err = r.Queue(t.Context(), "q", nil, 10)
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(r.Exists(t.Context(), "q")))
	require.Empty(t, r.list(stats.MessageFilter{}))
}

// The messages of a partition pass through all states. The test checks the counts after each step.
func TestCountsFollowTheCursors(t *testing.T) {
	r := newFixture(t)
	requireCounts := func(want stats.Counts, why string) {
		t.Helper()
		require.Equal(t, want, r.only().Counts, why)
		require.Equal(t, want.Total, want.Pending+want.Processing+want.Completed+want.DeadLetter)
	}
	r.push("q", "p", "1", "2", "3", "4", "5", "6")
	requireCounts(stats.Counts{Total: 6, Pending: 6}, "there is no reader")
	d := r.pop("q", "p", queue.DefaultGroup, 4)
	requireCounts(stats.Counts{Total: 6, Pending: 2, Processing: 4}, "four messages are leased")
	r.ack(d, queue.AckCompleted, 0)
	requireCounts(stats.Counts{Total: 6, Pending: 2, Processing: 3, Completed: 1}, "one message is done")
	r.ack(d, queue.AckDead, 2)
	requireCounts(stats.Counts{Total: 6, Pending: 2, Processing: 2, Completed: 1, DeadLetter: 1}, "one message is dead-lettered before an earlier one is done")
	r.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp() - interval '1 s'`)
	requireCounts(stats.Counts{Total: 6, Pending: 4, Completed: 1, DeadLetter: 1}, "the lease has expired")

	r.pop("q", "p", "g", 6)
	requireCounts(stats.Counts{Total: 6, Pending: 4, Processing: 1, DeadLetter: 1}, "a group leases all messages, but the reader without a group has no lease")
	r.exec(`UPDATE belfry.cursor SET committed = 6, skip = NULL, lease_until = NULL, lease_end = NULL
		WHERE group_id = (SELECT id FROM belfry.consumer_group WHERE name <> 'g')`)
	requireCounts(stats.Counts{Total: 6, Processing: 5, DeadLetter: 1}, "the group leases every message that is not dead-lettered")
	r.exec(`UPDATE belfry.cursor SET committed = 6`)
	requireCounts(stats.Counts{Total: 6, Completed: 5, DeadLetter: 1}, "every reader is done")

	r.exec(`DELETE FROM belfry.message WHERE seq IN (1, 2, 5)`)
	r.exec(`UPDATE belfry.partition SET trimmed = 2, holes = 1 WHERE name = 'p'`)
	requireCounts(stats.Counts{Total: 3, Completed: 2, DeadLetter: 1}, "two messages were trimmed and one was deleted")
	r.exec(`UPDATE belfry.cursor SET committed = 0, skip = '{[5,5]}'`)
	requireCounts(stats.Counts{Total: 3, Pending: 2, DeadLetter: 1}, "a cursor at the beginning has the hole in its skip list")
	r.exec(`UPDATE belfry.cursor SET skip = NULL`)
	requireCounts(stats.Counts{Total: 3, Pending: 2, DeadLetter: 1}, "the sum is also right for a cursor without the hole in its skip list")
}

func TestDelayedMessagesArePending(t *testing.T) {
	r := newFixture(t)
	r.configure("q", func(s *catalog.Settings) { s.Options.DelayedProcessing = 3600 })
	r.push("q", "p", "1", "2")
	require.Empty(t, r.pop("q", "p", "g", 9).Messages)
	require.Equal(t, stats.Counts{Total: 2, Pending: 2}, r.only().Counts)
	require.EqualValues(t, 2, r.only().Partitions, "p, and the partition Default of a configured queue")
}

func TestQueuesAreListedNewestFirst(t *testing.T) {
	r := newFixture(t)
	names := []string{"orders.new", "orders.paid", "mails", "50% off ☂/ü", "gone"}
	for _, name := range names {
		r.push(name, "p", "1", "2")
	}
	r.configure("empty", func(s *catalog.Settings) { s.Namespace, s.Task = "orders", "new" })
	_, err := r.catalog.Delete(t.Context(), "gone")
	require.NoError(t, err)
	listed := func(filter stats.QueueFilter) (names []string) {
		queues, err := r.Queues(t.Context(), filter)
		require.NoError(t, err)
		for _, q := range queues {
			names = append(names, q.Name)
		}
		return names
	}
	require.Equal(t, []string{"empty", "50% off ☂/ü", "mails", "orders.paid", "orders.new"}, listed(stats.QueueFilter{}))
	require.Equal(t, []string{"empty", "orders.paid", "orders.new"}, listed(stats.QueueFilter{Namespace: "orders"}))
	require.Equal(t, []string{"empty", "orders.new"}, listed(stats.QueueFilter{Namespace: "orders", Task: "new"}))
	require.Equal(t, []string{"orders.paid", "orders.new"}, listed(stats.QueueFilter{Namespace: "orders", Limit: 2, Offset: 1}))
	require.Empty(t, listed(stats.QueueFilter{Task: "ne"}))

	namespaces, err := r.Namespaces(t.Context(), nil)
	require.NoError(t, err)
	two := stats.Counts{Total: 2, Pending: 2}
	require.Equal(t, []stats.Tag{
		{Name: "50% off ☂/ü", Queues: 1, Partitions: 1, Counts: two},
		{Name: "mails", Queues: 1, Partitions: 1, Counts: two},
		{Name: "orders", Queues: 3, Partitions: 3, Counts: stats.Counts{Total: 4, Pending: 4}},
	}, namespaces)
	tasks, err := r.Tasks(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []stats.Tag{
		{Name: "new", Queues: 2, Partitions: 2, Counts: two},
		{Name: "paid", Queues: 1, Partitions: 1, Counts: two},
	}, tasks, "a queue without a task is not listed")
}

func TestQueueDetailPagesItsPartitions(t *testing.T) {
	r := newFixture(t)
	for _, partition := range []string{"c", "a", "b ☂", "%"} {
		r.push("q", partition, "1", "2")
	}
	r.exec(`INSERT INTO belfry.partition (queue_id, name, closed) SELECT id, 'closing', true FROM belfry.queue`)
	r.ack(r.pop("q", "a", "g", 1), queue.AckCompleted)
	whole, err := r.Queue(t.Context(), "q", nil, 100)
	require.NoError(t, err)
	require.False(t, whole.More)
	require.Len(t, whole.Page, 4)
	require.EqualValues(t, 4, whole.Partitions)
	require.Equal(t, stats.Counts{Total: 8, Pending: 7, Completed: 1}, whole.Counts)

	var names []string
	var after *string
	for range 2 {
		page, err := r.Queue(t.Context(), "q", after, 2)
		require.NoError(t, err)
		require.Equal(t, whole.Counts, page.Counts, "the counts cover all partitions")
		require.Equal(t, whole.Partitions, page.Partitions)
		require.Len(t, page.Page, 2)
		for i := range page.Page {
			names = append(names, page.Page[i].Name)
			require.Equal(t, whole.Page[len(names)-1], page.Page[i])
		}
		after = &names[len(names)-1]
	}
	require.ElementsMatch(t, []string{"c", "a", "b ☂", "%"}, names)
	for _, p := range whole.Page {
		require.NotZero(t, p.Oldest)
		require.Equal(t, p.Oldest, p.Newest, "all messages of one push have the same instant")
		if p.Name == "a" {
			require.EqualValues(t, 1, p.Consumed)
			require.True(t, p.ActiveAt.After(p.Newest), "the ack was later than the push")
		} else {
			require.Zero(t, p.Consumed)
			require.Equal(t, p.Newest, p.ActiveAt)
		}
	}
	for counted, want := range map[int]int64{0: 0, 1: 2, 3: 6, 4: 8, 2000: 8} {
		some, err := r.QueueUpTo(t.Context(), "q", nil, 1, &counted)
		require.NoError(t, err)
		require.Equal(t, want, some.Counts.Total)
		require.Equal(t, counted < 4, some.Partial)
		require.Len(t, some.Page, 1)
	}
	r.exec(`DELETE FROM belfry.message`)
	r.exec(`UPDATE belfry.partition SET trimmed = last_seq`)
	empty, err := r.Queue(t.Context(), "q", nil, 100)
	require.NoError(t, err)
	require.Equal(t, stats.Counts{}, empty.Counts)
	require.Zero(t, empty.Page[0].Oldest)
	require.Zero(t, empty.Page[0].Newest)
}

func TestOverviewSumsUp(t *testing.T) {
	r := newFixture(t)
	r.push("a.x", "1", "1", "2", "3")
	r.push("a.y", "1", "1")
	r.push("a.y", "2", "1", "2")
	r.ack(r.pop("a.y", "1", "g", 1), queue.AckCompleted)
	r.ack(r.pop("a.x", "1", "g", 1), queue.AckCompleted)
	r.exec(`UPDATE belfry.message SET created_at = statement_timestamp() - CASE WHEN seq = 1 THEN interval '1 h' ELSE interval '100 s' END`)
	o, err := r.Overview(t.Context(), nil)
	require.NoError(t, err)
	require.InDelta(t, 100, o.TimeLag.Min, enginetest.Patience.Seconds())
	require.InDelta(t, 3600, o.TimeLag.Max, enginetest.Patience.Seconds())
	require.InDelta(t, 1850, o.TimeLag.Median, enginetest.Patience.Seconds())
	require.InDelta(t, 1850, o.TimeLag.Avg, enginetest.Patience.Seconds())
	o.TimeLag = api.Spread{}
	require.Equal(t, stats.Overview{
		Queues: 2, Partitions: 3, Namespaces: 1, Tasks: 2, Counts: stats.Counts{Total: 6, Pending: 4, Completed: 2},
		OffsetLag: api.Spread{Avg: 2, Median: 2, Min: 2, Max: 2},
	}, o)
}

// madeCursor is a cursor of a generated partition.
type madeCursor struct {
	committed int64
	leaseEnd  int64 // 0 means no lease
	expired   bool
	skip      []int64
}

// madePartition is a generated partition.
type madePartition struct {
	last, trimmed int64
	holes         []int64
	cursors       []madeCursor
	dead          [][2]int64 // group, seq
}

// randomPartition returns a partition that pushes, pops and acks could make. The skip list of
// a cursor has the holes after the cursor and the dead letters of its group.
func randomPartition(rng *rand.Rand) madePartition {
	p := madePartition{last: rng.Int64N(12)}
	if p.last > 0 {
		p.trimmed = rng.Int64N(p.last + 1)
	}
	for seq := p.trimmed + 1; seq <= p.last; seq++ {
		if rng.IntN(5) == 0 {
			p.holes = append(p.holes, seq)
		}
	}
	for group := range rng.Int64N(4) {
		c := madeCursor{committed: rng.Int64N(p.last + 1)}
		if c.committed < p.last && rng.IntN(2) == 0 {
			c.leaseEnd = c.committed + 1 + rng.Int64N(p.last-c.committed)
			c.expired = rng.IntN(3) == 0
		}
		for seq := p.trimmed + 1; seq <= p.last; seq++ {
			hole := slices.Contains(p.holes, seq)
			dead := !hole && rng.IntN(5) == 0
			if dead {
				p.dead = append(p.dead, [2]int64{group, seq})
			}
			if (hole || dead) && seq > c.committed {
				c.skip = append(c.skip, seq)
			}
		}
		p.cursors = append(p.cursors, c)
	}
	return p
}

// counts computes the counts from the single messages.
func (p madePartition) counts() (n stats.Counts) {
	for seq := p.trimmed + 1; seq <= p.last; seq++ {
		if slices.Contains(p.holes, seq) {
			continue
		}
		n.Total++
		waits, leased := len(p.cursors) == 0, false
		for _, c := range p.cursors {
			switch {
			case seq <= c.committed:
			case seq <= c.leaseEnd && !c.expired:
				leased = true
			default:
				waits = true
			}
		}
		switch {
		case slices.ContainsFunc(p.dead, func(d [2]int64) bool { return d[1] == seq }):
			n.DeadLetter++
		case waits:
			n.Pending++
		case leased:
			n.Processing++
		default:
			n.Completed++
		}
	}
	return n
}

// The counts computed from cursors equal the counts computed from the single messages.
func TestCountsFromCursorsEqualCountsFromMessages(t *testing.T) {
	const partitions = 1500 // more than a page
	r := newFixture(t)
	rng := rand.New(rand.NewPCG(1, 2))
	r.configure("q")
	r.exec(`DELETE FROM belfry.partition`)
	r.exec(`INSERT INTO belfry.consumer_group (queue_id, name) SELECT q.id, 'g' || i FROM belfry.queue q, generate_series(0, 3) i`)
	var groups []int64
	require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY name) FROM belfry.consumer_group`).Scan(&groups))
	made := map[string]madePartition{}
	var total stats.Counts
	for i := range partitions {
		name, p := fmt.Sprintf("p%d", i), randomPartition(rng)
		made[name] = p
		n := p.counts()
		total = stats.Counts{
			Total: total.Total + n.Total, Pending: total.Pending + n.Pending, Processing: total.Processing + n.Processing,
			Completed: total.Completed + n.Completed, DeadLetter: total.DeadLetter + n.DeadLetter,
		}
		var id int64
		require.NoError(t, r.conn.QueryRow(t.Context(), `INSERT INTO belfry.partition (queue_id, name, last_seq, trimmed, holes)
			SELECT id, $1, $2, $3, $4 FROM belfry.queue RETURNING id`, name, p.last, p.trimmed, len(p.holes)).Scan(&id))
		for g, c := range p.cursors {
			r.exec(`INSERT INTO belfry.cursor (partition_id, group_id, committed, lease_end, lease_until, skip)
				VALUES ($1, $2, $3, nullif($4::bigint, 0),
				        CASE WHEN $4 > 0 THEN clock_timestamp() + CASE WHEN $5 THEN interval '-1 h' ELSE interval '1 h' END END,
				        (SELECT range_agg(int8range(s, s + 1)) FROM unnest($6::bigint[]) AS s))`,
				id, groups[g], c.committed, c.leaseEnd, c.expired, c.skip)
		}
		for _, d := range p.dead {
			r.exec(`INSERT INTO belfry.dead_letter (partition_id, group_id, seq, attempts) VALUES ($1, $2, $3, 1)`, id, groups[d[0]], d[1])
		}
	}
	require.Positive(t, total.Processing)
	require.Positive(t, total.Completed)
	detail, err := r.Queue(t.Context(), "q", nil, 10_000)
	require.NoError(t, err)
	require.Len(t, detail.Page, partitions)
	for _, p := range detail.Page {
		require.Equal(t, made[p.Name].counts(), p.Counts, "%+v", made[p.Name])
	}
	require.Equal(t, total, detail.Counts)
	require.Equal(t, total, r.only().Counts)
	require.EqualValues(t, partitions, r.only().Partitions)
}
