package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

// lockRows locks the rows of query until release is called. A call that needs these rows waits, and
// the following calls share one batch.
func (b *bench) lockRows(query string) (release func()) {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	enginetest.Exec(b.t, tx, query)
	b.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.t.Context())) })
	return func() { require.NoError(b.t, tx.Rollback(b.t.Context())) }
}

// oneByOne returns a bench that runs one flush of an operation at a time.
func oneByOne(t *testing.T, groups ...string) *bench {
	t.Helper()
	b := newBench(t, groups...)
	b.reg = prometheus.NewRegistry()
	b.Store = newStore(t, b.pool, b.reg, nil, func(c *batch.Config) { c.MaxFlushes = 1 })
	return b
}

const (
	holdPartition = `SELECT 1 FROM belfry.partition WHERE name = 'held' FOR UPDATE`
	holdCursors   = `SELECT 1 FROM belfry.cursor FOR UPDATE`
)

// pushed is the outcome of a push in the background.
type pushed struct {
	results []queue.PushResult
	err     error
}

func (b *bench) beginPush(items ...queue.PushItem) <-chan pushed {
	out := make(chan pushed, 1)
	go func() {
		results, err := b.Push(b.t.Context(), items)
		out <- pushed{results, err}
	}()
	return out
}

// takeAllConnections takes all connections of the pool until release is called. A flush waits for a
// connection, and the following calls share one batch.
func (b *bench) takeAllConnections() (release func()) {
	b.t.Helper()
	conns := make([]*pgxpool.Conn, b.pool.Config().MaxConns)
	for i := range conns {
		var err error
		conns[i], err = b.pool.Acquire(b.t.Context())
		require.NoError(b.t, err)
	}
	release = sync.OnceFunc(func() {
		for _, conn := range conns {
			conn.Release()
		}
	})
	b.t.Cleanup(release)
	return release
}

// awaitQueued returns once at least n calls of an operation wait for a flush.
func (b *bench) awaitQueued(op string, n int) {
	b.t.Helper()
	b.awaitGauge("belfry_batch_queue_depth", op, n)
}

// awaitGauge returns once a gauge of an operation is at least n.
func (b *bench) awaitGauge(name, op string, n int) {
	b.t.Helper()
	enginetest.Await(b.t, fmt.Sprintf("%s of %s: %d", name, op, n), func() bool { return b.gaugeReaches(name, op, n) })
}

// gaugeReaches reports whether a gauge of an operation is n or more.
func (b *bench) gaugeReaches(name, op string, n int) bool {
	b.t.Helper()
	return int(enginetest.Metric(b.t, b.reg, name, op)) >= n
}

// together blocks a first push until n other pushes wait. One flush then stores those n pushes.
func (b *bench) together(n int, begin func(i int) <-chan pushed) []pushed {
	b.t.Helper()
	b.push("held", "before")
	release := b.lockRows(holdPartition)
	first := b.beginPush(item("held", "first"))
	awaitLockWait(b.t, b)
	outs := make([]<-chan pushed, n)
	for i := range outs {
		outs[i] = begin(i)
		b.awaitQueued("push", i+1)
	}
	release()
	require.NoError(b.t, (<-first).err)
	got := make([]pushed, n)
	for i, out := range outs {
		got[i] = <-out
	}
	return got
}

// Small messages share a flush. Large messages do not, so that no flush takes long.
func TestLargeMessagesHaveFlushesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{100: 1, 5 << 20: 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b := oneByOne(t)
			payload := []byte(`"` + strings.Repeat("a", size) + `"`)
			b.push("p", "before")
			before := 0
			got := b.together(3, func(i int) <-chan pushed {
				if i == 0 {
					before = int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "push")) + 1 // plus the first push
				}
				return b.beginPush(queue.PushItem{Queue: "q", Partition: "p", TransactionID: fmt.Sprint(i), Payload: payload})
			})
			for _, p := range got {
				require.NoError(t, p.err)
			}
			require.Equal(t, want, int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "push"))-before)
		})
	}
}

// The database refuses one of 500 items of different callers. The other 499 items are stored, and
// only the caller of the refused item gets the error.
func TestABadItemFailsAlone(t *testing.T) {
	b := oneByOne(t)
	const n, bad = 500, 321
	b.push("p", "before")
	got := b.together(n, func(i int) <-chan pushed {
		id := fmt.Sprint(i)
		if i == bad {
			id += "\x00"
		}
		return b.beginPush(item("p", id))
	})
	for i, p := range got {
		if i == bad {
			require.Equal(t, queue.CodeInvalid, queue.CodeOf(p.err))
			continue
		}
		require.NoError(t, p.err)
		require.False(t, p.results[0].Duplicate)
	}
	var stored, flushes int
	b.scan(`SELECT count(*) - 1 FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id WHERE p.name = 'p'`, nil, &stored)
	require.Equal(t, n-1, stored)
	b.scan(`SELECT count(DISTINCT m.created_at) - 1 FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
		WHERE p.name = 'p'`, nil, &flushes)
	require.Less(t, flushes, 15, "the good items were stored in few flushes")
}

// Two calls of one flush with the same transaction id store one message.
func TestDuplicatesInOneFlushAreStoredOnce(t *testing.T) {
	b := oneByOne(t)
	b.push("p", "before")
	b.push("other", "before")
	got := b.together(3, func(i int) <-chan pushed {
		if i == 2 {
			return b.beginPush(item("other", "same"), item("p", "same"))
		}
		return b.beginPush(item("p", "same"))
	})
	original := got[0].results[0]
	require.False(t, original.Duplicate)
	require.Equal(t, queue.PushResult{
		MessageID: original.MessageID, PartitionID: original.PartitionID, TransactionID: "same", Duplicate: true,
	}, got[1].results[0])
	require.False(t, got[2].results[0].Duplicate, "another partition")
	require.True(t, got[2].results[1].Duplicate)
	req, p := request("g", 10), "p"
	req.Partition = &p
	require.Equal(t, []string{"before", "same"}, transactionIDs(b.pop(req)))
}

// The answer of a COMMIT is lost. The store sends the push again and finds its messages stored. The
// messages are stored once, the caller gets success, and the ready partitions are announced.
func TestAPushIsStoredOnceAfterALostCommit(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	heard := &receiver{}
	s.Observe(heard)
	want, ids := []string{}, []queue.ID{}
	unnamed := queue.PushItem{Queue: "q", Partition: "p", Payload: []byte(`{}`)}
	for _, items := range [][]queue.PushItem{{item("p", "named"), unnamed}, {unnamed}} {
		network.CutCommit.Store(true)
		results, err := s.Push(t.Context(), items)
		require.NoError(t, err)
		require.False(t, network.CutCommit.Load(), "the answer was lost")
		for _, r := range results {
			require.False(t, r.Duplicate, "the message is from this push")
			want, ids = append(want, r.TransactionID), append(ids, r.MessageID)
		}
		require.Positive(t, len(heard.ready)+int(heard.resyncs.Load()))
	}
	got := direct.pop(request("g", 10))
	require.Equal(t, want, transactionIDs(got))
	for i, id := range ids {
		require.Equal(t, id, got.Messages[i].ID)
	}
}

// The answer of an ack is lost after its commit. The ack may be applied or not, so the caller gets
// CodeUnavailable. Repeating the ack is safe.
func TestAnAckIsUnavailableAfterALostCommit(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.push("p", "1", "2")
	d := direct.pop(request("g", 1))
	network.CutRowOf.Store(pgproxy.AckColumns)
	_, err := s.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages...))
	require.Zero(t, network.CutRowOf.Load(), "the answer was lost")
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	_, err = s.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages...))
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, transactionIDs(direct.pop(request("g", 10))))
}

// If the database does not keep up, a push waits for a flush until its request timeout. Then it
// gets CodeOverloaded with a retry time.
func TestAPushIsRefusedIfTheDatabaseDoesNotKeepUp(t *testing.T) {
	b := newBench(t)
	b.Store = newStore(t, newPool(t, b.pool.Config().ConnString(), 2*time.Second), prometheus.NewRegistry(), nil,
		func(c *batch.Config) { c.QueueSize, c.MaxSize, c.MaxFlushes = 2, 1, 1 })
	b.push("held", "before")
	release := b.lockRows(holdPartition)
	inFlight := b.beginPush(item("held", "inFlight"))
	awaitLockWait(t, b)
	outcomes := make(chan error, 5)
	for i := range cap(outcomes) {
		go func() {
			_, err := b.Push(t.Context(), []queue.PushItem{item("held", fmt.Sprint(i))})
			outcomes <- err
		}()
	}
	// When the first flush times out, one waiting push may start the next flush and block there.
	for range cap(outcomes) - 1 {
		var refused *queue.Error
		require.ErrorAs(t, <-outcomes, &refused)
		require.Equal(t, queue.CodeOverloaded, refused.Code)
		require.Equal(t, time.Second, refused.RetryAfter)
	}
	release()
	stored := 1 // the push before the lock
	if err := <-outcomes; err == nil {
		stored++
	}
	require.Error(t, (<-inFlight).err)
	require.Equal(t, stored, b.count(`SELECT count(*) FROM belfry.message`), "a refused push stored nothing")
}

// Acks in one flush have the same effect as acks one after the other.
func TestAcksInOneFlushActInSequence(t *testing.T) {
	b := oneByOne(t)
	ids := numbered("m", 10)
	b.push("p", ids...)
	d := b.pop(request("g", 10))
	release := b.takeAllConnections()
	outcomes := make([]<-chan acked, len(ids))
	for i := range ids {
		outcomes[i] = b.beginAck(acks(d, queue.AckCompleted, d.Messages[i]))
		if i == 0 {
			b.awaitGauge("belfry_batch_flushes_in_flight", "ack", 1)
		} else {
			b.awaitQueued("ack", i)
		}
	}
	release()
	released := 0
	for i := range ids {
		o := <-outcomes[i]
		b.requireAcked(o)
		if o.results[0].LeaseReleased {
			released++
		}
	}
	require.Equal(t, 1, released, "the ack that completed the last message released the lease")
	var committed int64
	var leased bool
	b.scan(`SELECT committed, lease_id IS NOT NULL FROM belfry.cursor`, nil, &committed, &leased)
	require.EqualValues(t, len(ids), committed)
	require.False(t, leased)
}

// Close completes the accepted pushes and refuses new ones.
func TestCloseCompletesAcceptedPushes(t *testing.T) {
	b := oneByOne(t)
	b.push("held", "before")
	release := b.lockRows(holdPartition)
	inFlight := b.beginPush(item("held", "inFlight"))
	awaitLockWait(t, b)
	waiting := b.beginPush(item("p", "waiting"))
	enginetest.Await(t, "the partition of the waiting push", func() bool {
		var opened bool
		b.scan(`SELECT EXISTS (SELECT 1 FROM belfry.partition WHERE name = 'p')`, nil, &opened)
		return opened
	})
	b.awaitQueued("push", 1)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Close(impatient), context.Canceled)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf((<-b.beginPush(item("p", "late"))).err))
	release()
	require.NoError(t, b.Close(t.Context()))
	require.NoError(t, (<-inFlight).err)
	require.NoError(t, (<-waiting).err)
	var stored []string
	b.scan(`SELECT array_agg(transaction_id ORDER BY transaction_id) FROM belfry.message`, nil, &stored)
	require.Equal(t, []string{"before", "inFlight", "waiting"}, stored)
}

// The store remembers its deliveries and does not look up their messages for an ack. Another
// instance looks the messages up. Both instances return the same results.
func TestAnAckOfARememberedDeliveryNeedsNoLookup(t *testing.T) {
	b := newBench(t)
	other := newStore(t, enginetest.Pool(t, b.pool.Config().ConnString()), prometheus.NewRegistry(), nil)
	b.push("p", "1", "2", "3", "4")
	d := b.pop(request("g", 2))
	b.exec(`DELETE FROM belfry.message WHERE seq <= 2`) // a look-up would not find these messages
	results, err := b.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages[1], d.Messages[0]))
	require.NoError(t, err)
	require.True(t, results[0].Success && results[1].Success, "%+v", results)

	d = b.pop(request("g", 2))
	require.Equal(t, []string{"3", "4"}, transactionIDs(d))
	results, err = other.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages...))
	require.NoError(t, err)
	require.True(t, results[0].Success && results[1].Success, "%+v", results)
	require.Empty(t, b.pop(request("g", 2)).Messages)
}
