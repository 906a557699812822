package totals_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world does random work.
type world struct {
	t       *testing.T
	r       *rand.Rand
	pool    *postgres.Pool
	conn    *pgx.Conn
	store   *store.Store
	catalog *catalog.Catalog
	letters *deadletter.Letters
	held    []queue.Delivery
	pushed  int
	// reads are the stored messages that were delivered.
	seen []queue.Message
}

func (w *world) pick(prefix string, n int) string { return fmt.Sprint(prefix, w.r.IntN(n)) }

func (w *world) push() {
	var items []queue.PushItem
	name := w.pick("queue", 3)
	for range 1 + w.r.IntN(5) {
		w.pushed++
		items = append(items, queue.PushItem{Queue: name, Partition: w.pick("p", 3), TransactionID: fmt.Sprint(w.pushed), Payload: []byte(`1`)})
	}
	_, err := w.store.Push(w.t.Context(), items)
	require.NoError(w.t, err)
}

func (w *world) pop() {
	request := &queue.PopRequest{Queue: w.pick("queue", 3), Group: w.pick("group", 3), Batch: 1 + w.r.IntN(4), Partitions: 1 + w.r.IntN(2)}
	if w.r.IntN(3) == 0 {
		name := w.pick("p", 3)
		request.Partition, request.Group, request.Partitions = &name, "", 1
	}
	d, err := w.store.Pop(w.t.Context(), request)
	require.NoError(w.t, err)
	if len(d.Messages) > 0 {
		w.held, w.seen = append(w.held, d), append(w.seen, d.Messages...)
	}
}

func (w *world) ack() {
	if len(w.held) == 0 {
		return
	}
	i := w.r.IntN(len(w.held))
	d := w.held[i]
	w.held = append(w.held[:i], w.held[i+1:]...)
	status := []queue.AckStatus{queue.AckCompleted, queue.AckCompleted, queue.AckFailed, queue.AckDead, queue.AckRetry}[w.r.IntN(5)]
	var items []queue.AckItem
	for _, m := range d.Messages[:1+w.r.IntN(len(d.Messages))] {
		items = append(items, queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: d.Group, LeaseID: d.LeaseID.String(), Status: status,
		})
	}
	_, err := w.store.Ack(w.t.Context(), items) // a seek may have ended the lease
	require.NoError(w.t, err)
}

func (w *world) operate() {
	ctx, name, group := w.t.Context(), w.pick("queue", 3), w.pick("group", 3)
	var err error
	switch w.r.IntN(8) {
	case 0:
		_, err = w.catalog.Seek(ctx, name, group, catalog.Position{})
	case 1:
		_, err = w.catalog.Seek(ctx, name, group, catalog.Position{End: true})
	case 2, 3:
		_, err = w.letters.Redrive(ctx, deadletter.Filter{Queue: &name, Group: &group}, 0, false)
	case 4:
		_, err = w.letters.Purge(ctx, deadletter.Filter{Queue: &name, Group: &group}, false)
	case 5, 6:
		if len(w.seen) > 0 {
			m := w.seen[w.r.IntN(len(w.seen))]
			_, err = w.letters.Delete(ctx, m.Partition.ID, m.TransactionID)
		}
	case 7:
		if w.r.IntN(5) == 0 {
			_, err = w.catalog.DeleteGroup(ctx, group, &name, w.r.IntN(2) == 0)
		} else if w.r.IntN(10) == 0 {
			_, err = w.catalog.Delete(ctx, name)
		}
	}
	require.NoError(w.t, err)
}

// check compares a pass with the sums of belfry.partition_counts, with the lag of each group, and with the rows.
func (w *world) check(c *totals.Counter) {
	w.t.Helper()
	s, err := c.Fresh(w.t.Context(), 0)
	require.NoError(w.t, err)
	queues, err := stats.New(w.pool).Queues(w.t.Context(), stats.QueueFilter{})
	require.NoError(w.t, err)
	require.Len(w.t, s.Queues, len(queues))
	for _, want := range queues {
		q := s.Queue(want.Name)
		require.NotNil(w.t, q, want.Name)
		require.Equal(w.t, totals.Counts{
			Total: want.Counts.Total, Pending: want.Counts.Pending, Processing: want.Counts.Processing, Dead: want.Counts.DeadLetter,
		}, q.Messages, want.Name)
		require.Equal(w.t, want.Partitions, q.Partitions)
		require.Equal(w.t, want.ID, q.ID)
		require.Equal(w.t, enginetest.Value[int64](w.t, w.conn, `SELECT count(*) FROM belfry.dead_letter d JOIN belfry.consumer_group g ON g.id = d.group_id
			JOIN belfry.queue q ON q.id = g.queue_id WHERE q.name = $1 AND q.deleted_at IS NULL`, want.Name), q.DeadLetters)
		// A dead letter of one group is not in the backlog, but is unfinished for another group.
		behind := q.Backlog() > 0 || slices.ContainsFunc(s.Groups, func(g totals.Group) bool { return g.Queue == want.Name && g.Lag > 0 })
		require.Equal(w.t, behind, !q.Oldest.IsZero(), want.Name)
	}
	groups, err := stats.NewGroups(w.pool).List(w.t.Context(), nil)
	require.NoError(w.t, err)
	require.Len(w.t, s.Groups, len(groups))
	for _, want := range groups {
		g := s.Group(want.Queue, want.Name)
		require.NotNil(w.t, g, want.Name)
		require.Equal(w.t, []int64{want.Partitions, want.Lagging, want.Lag}, []int64{g.Partitions, g.Lagging, g.Lag}, "%s of %s", want.Name, want.Queue)
		require.InDelta(w.t, want.Oldest.Seconds(), s.Age(g.Oldest).Seconds(), 5)
		require.True(w.t, want.ConsumedAt.Equal(g.ConsumedAt))
		require.Equal(w.t, enginetest.Value[int64](w.t, w.conn, `SELECT count(*) FROM belfry.dead_letter d JOIN belfry.consumer_group g ON g.id = d.group_id
			JOIN belfry.queue q ON q.id = g.queue_id WHERE q.name = $1 AND q.deleted_at IS NULL AND g.name = $2`, want.Queue, want.Name), g.DeadLetters)
	}
}

// The totals are the sums of what each queue and each group counts for itself, after any work.
func TestTotalsAreTheSumsOfEachQueueAndGroup(t *testing.T) {
	pool := enginetest.Pool(t, enginetest.Database(t))
	w := &world{
		t: t, r: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))), pool: pool, conn: enginetest.Connect(t, pool.Config().ConnString()), store: enginetest.Store(t, pool),
		catalog: catalog.New(pool, nil, &events.Bus{}, zap.NewNop()), letters: deadletter.New(pool, nil, &events.Bus{}, zap.NewNop()),
	}
	c := totals.New(pool, time.Minute)
	w.check(c)
	for i := range 600 {
		[]func(){w.push, w.push, w.pop, w.pop, w.pop, w.ack, w.ack, w.operate}[w.r.IntN(8)]()
		if i%30 == 0 {
			w.check(c)
		}
	}
	w.check(c)
}

// Without a group, every stored message is pending, and none is in delivery.
func TestAQueueWithoutAGroupIsPending(t *testing.T) {
	pool := enginetest.Pool(t, enginetest.Database(t))
	_, err := enginetest.Store(t, pool).Push(t.Context(), []queue.PushItem{{Queue: "orders", Partition: "p", TransactionID: "1", Payload: []byte(`1`)}})
	require.NoError(t, err)
	found, err := totals.New(pool, time.Minute).Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, totals.Counts{Total: 1, Pending: 1}, found.Queue("orders").Messages)
	require.False(t, found.Queue("orders").Oldest.IsZero())
	require.Empty(t, found.Groups)
}

// The numbers of a group say what its partitions do.
func TestAGroupCountsLeasesAndFailures(t *testing.T) {
	pool := enginetest.Pool(t, enginetest.Database(t))
	s := enginetest.Store(t, pool)
	var items []queue.PushItem
	for i := range 6 {
		items = append(items, queue.PushItem{Queue: "orders", Partition: fmt.Sprint("p", i/2), TransactionID: fmt.Sprint(i), Payload: []byte(`1`)})
	}
	_, err := s.Push(t.Context(), items)
	require.NoError(t, err)
	pop := func() queue.Delivery {
		d, err := s.Pop(t.Context(), &queue.PopRequest{Queue: "orders", Group: "billing", Batch: 10, Partitions: 1})
		require.NoError(t, err)
		return d
	}
	failed := pop()
	held := pop()
	require.Len(t, held.Messages, 2)
	_, err = s.Ack(t.Context(), []queue.AckItem{{
		TransactionID: failed.Messages[0].TransactionID, PartitionID: failed.Messages[0].Partition.ID.String(), Group: "billing", LeaseID: failed.LeaseID.String(), Status: queue.AckFailed,
	}})
	require.NoError(t, err)
	found, err := totals.New(pool, time.Minute).Fresh(t.Context(), 0)
	require.NoError(t, err)
	g := found.Group("orders", "billing")
	require.Equal(t, totals.GroupSums{Partitions: 3, Lagging: 3, Lag: 6, Due: 2, Leased: 1, Failing: 1, Held: 2, Oldest: g.Oldest, OldestDue: g.Oldest}, g.GroupSums)
	require.Equal(t, totals.Counts{Total: 6, Pending: 4, Processing: 2}, found.Queue("orders").Messages)
	sum := found.Sum(func(*totals.Queue) bool { return true })
	require.Equal(t, totals.Sum{Queues: 1, Groups: 1, Partitions: 3, Messages: totals.Counts{Total: 6, Pending: 4, Processing: 2}, Failing: 1, Oldest: found.Queue("orders").Oldest}, sum)
}
