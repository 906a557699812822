package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

// hold locks what query names until release, so that whoever needs it waits and
// what comes after it meets in one batch.
func (b *bench) hold(query string) (release func()) {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	_, err = tx.Exec(b.t.Context(), query)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.t.Context())) })
	return func() { require.NoError(b.t, tx.Rollback(b.t.Context())) }
}

// oneByOne makes a bench whose flushes never are beside each other.
func oneByOne(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.reg = prometheus.NewRegistry()
	b.Store = newStore(t, b.pool, b.reg, nil, func(c *batch.Config) { c.MaxFlushes = 1 })
	return b
}

const (
	holdPartition = `SELECT 1 FROM belfry.partition WHERE name = 'held' FOR UPDATE`
	holdCursors   = `SELECT 1 FROM belfry.cursor FOR UPDATE`
)

// pushed is what a push in the background came to.
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

// occupy takes all connections until release, so that flushes wait for one and what
// comes after them meets in one batch.
func (b *bench) occupy() (release func()) {
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

// awaitQueued returns once at least so many messages wait for a flush.
func (b *bench) awaitQueued(op string, n int) {
	b.t.Helper()
	b.awaitGauge("belfry_batch_queue_depth", op, n)
}

// awaitGauge returns once a gauge of an operation has at least this value.
func (b *bench) awaitGauge(name, op string, n int) {
	b.t.Helper()
	await(b.t, fmt.Sprintf("%s of %s: %d", name, op, n), func() bool {
		families, err := b.reg.Gather()
		require.NoError(b.t, err)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == name && m.GetLabel()[0].GetValue() == op {
					return int(m.GetGauge().GetValue()) >= n
				}
			}
		}
		return false
	})
}

// together holds a push back until all of the others wait, so that they are
// stored by one flush.
func (b *bench) together(n int, begin func(i int) <-chan pushed) []pushed {
	b.t.Helper()
	b.push("held", "before")
	release := b.hold(holdPartition)
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

// One item with a value that the database refuses among 499 good ones of other
// callers: 499 are stored, and one caller gets its error.
func TestBadItemHurtsNobodyElse(t *testing.T) {
	t.Parallel()
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
			var refused *queue.Error
			require.ErrorAs(t, p.err, &refused)
			require.Equal(t, queue.CodeInvalid, refused.Code)
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
	require.Less(t, flushes, 15, "they were stored together, around the bad one")
}

// The same transaction id in two calls of one flush is one message.
func TestDuplicatesAcrossCallsOfAFlush(t *testing.T) {
	t.Parallel()
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

// A push whose COMMIT has no answer is sent again and finds itself stored: it is
// there once, and its caller hears of success.
func TestLostCommitOfAPush(t *testing.T) {
	t.Parallel()
	direct := newBench(t)
	network, through := pgproxy.New(t, direct.pool.Config().ConnString())
	s := newStore(t, newPool(t, through, 30*time.Second), prometheus.NewRegistry(), nil)
	_, err := s.Push(t.Context(), []queue.PushItem{item("p", "before")})
	require.NoError(t, err)
	want, ids := []string{"before"}, []queue.ID{}
	unnamed := queue.PushItem{Queue: "q", Partition: "p", Payload: []byte(`{}`)}
	for _, items := range [][]queue.PushItem{{item("p", "named"), unnamed}, {unnamed}} {
		network.CutCommit.Store(true)
		results, err := s.Push(t.Context(), items)
		require.NoError(t, err)
		require.False(t, network.CutCommit.Load(), "the answer was lost")
		for _, r := range results {
			require.False(t, r.Duplicate, "it is its own")
			want, ids = append(want, r.TransactionID), append(ids, r.MessageID)
		}
	}
	got := direct.pop(request("g", 10))
	require.Equal(t, want, transactionIDs(got))
	for i, id := range ids {
		require.Equal(t, id, got.Messages[i+1].ID)
	}
}

// An ack whose COMMIT has no answer may or may not have been done: its caller is
// told that the database is away, and a repetition is safe.
func TestLostCommitOfAnAck(t *testing.T) {
	t.Parallel()
	direct := newBench(t)
	network, through := pgproxy.New(t, direct.pool.Config().ConnString())
	s := newStore(t, newPool(t, through, 30*time.Second), prometheus.NewRegistry(), nil)
	direct.push("p", "1", "2")
	d := direct.pop(request("g", 1))
	network.CutCommit.Store(true)
	_, err := s.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages...))
	var unavailable *queue.Error
	require.ErrorAs(t, err, &unavailable)
	require.Equal(t, queue.CodeUnavailable, unavailable.Code)
	_, err = s.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages...))
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, transactionIDs(direct.pop(request("g", 10))))
}

// When the database does not keep up, who comes waits for its turn as long as a
// request may take, and is then told to come again.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Store = newStore(t, newPool(t, b.pool.Config().ConnString(), 2*time.Second), prometheus.NewRegistry(), nil,
		func(c *batch.Config) { c.QueueSize, c.MaxSize, c.MaxFlushes = 2, 1, 1 })
	b.push("held", "before")
	release := b.hold(holdPartition)
	flying := b.beginPush(item("held", "flying"))
	awaitLockWait(t, b)
	outcomes := make(chan error, 5)
	for i := range cap(outcomes) {
		go func() {
			_, err := b.Push(t.Context(), []queue.PushItem{item("held", fmt.Sprint(i))})
			outcomes <- err
		}()
	}
	// One of them may leave when the flight before it has run out of time, and
	// hangs then in its place.
	for range cap(outcomes) - 1 {
		var refused *queue.Error
		require.ErrorAs(t, <-outcomes, &refused)
		require.Equal(t, queue.CodeOverloaded, refused.Code)
		require.Equal(t, time.Second, refused.RetryAfter)
	}
	release()
	stored := 1 // before
	if err := <-outcomes; err == nil {
		stored++
	}
	require.Error(t, (<-flying).err)
	var there int
	b.scan(`SELECT count(*) FROM belfry.message`, nil, &there)
	require.Equal(t, stored, there, "who was refused has stored nothing")
}

// Acks that meet in one flush do what they do one after the other.
func TestAcksTogether(t *testing.T) {
	t.Parallel()
	b := oneByOne(t)
	ids := numbered("m", 10)
	b.push("p", ids...)
	d := b.pop(request("g", 10))
	release := b.occupy()
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
	require.Equal(t, 1, released, "by the one that completed the last of them")
	var committed int64
	var leased bool
	b.scan(`SELECT committed, lease_id IS NOT NULL FROM belfry.cursor`, nil, &committed, &leased)
	require.EqualValues(t, len(ids), committed)
	require.False(t, leased)
}

// Close answers what has been accepted and refuses the rest.
func TestCloseDrainsPushes(t *testing.T) {
	t.Parallel()
	b := oneByOne(t)
	b.push("held", "before")
	release := b.hold(holdPartition)
	flying := b.beginPush(item("held", "flying"))
	awaitLockWait(t, b)
	waiting := b.beginPush(item("p", "waiting"))
	await(t, "the partition of the waiting push", func() bool {
		var opened bool
		b.scan(`SELECT EXISTS (SELECT 1 FROM belfry.partition WHERE name = 'p')`, nil, &opened)
		return opened
	})
	b.awaitQueued("push", 1)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Close(impatient), context.Canceled)
	var refused *queue.Error
	require.ErrorAs(t, (<-b.beginPush(item("p", "late"))).err, &refused)
	require.Equal(t, queue.CodeUnavailable, refused.Code)
	release()
	require.NoError(t, b.Close(t.Context()))
	require.NoError(t, (<-flying).err)
	require.NoError(t, (<-waiting).err)
	var stored []string
	b.scan(`SELECT array_agg(transaction_id ORDER BY transaction_id) FROM belfry.message`, nil, &stored)
	require.Equal(t, []string{"before", "flying", "waiting"}, stored)
}

// What the store has delivered it need not look for when it is acknowledged; an
// instance that did not deliver it looks. Both say the same.
func TestAcksOfRememberedDeliveries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := newStore(t, newPool(t, b.pool.Config().ConnString(), 30*time.Second), prometheus.NewRegistry(), nil)
	b.push("p", "1", "2", "3", "4")
	d := b.pop(request("g", 2))
	b.exec(`DELETE FROM belfry.message WHERE seq <= 2`) // so that a look would not find them
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
