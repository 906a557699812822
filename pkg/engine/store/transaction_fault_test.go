package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// storeBehindProxy returns a bench, a proxy to its database, and a store that connects through the proxy.
func storeBehindProxy(t *testing.T) (*bench, *pgproxy.Proxy, *store.Store) {
	t.Helper()
	direct := newBench(t)
	network, through := pgproxy.New(t, direct.pool.Config().ConnString())
	return direct, network, newStore(t, enginetest.Pool(t, through), prometheus.NewRegistry(), nil)
}

// The answer of a COMMIT is lost. The store sends a transaction with pushes again and finds its messages stored.
// The transaction is applied once, the caller gets success, and the ready partitions are announced.
func TestATransactionIsAppliedOnceAfterALostCommit(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.push("p", "1", "2", "3")
	direct.push("out", "before")
	heard := &receiver{}
	s.Observe(heard)
	for _, name := range []string{"named", ""} {
		req := request("g", 1, from("p"))
		d := direct.pop(req)
		network.CutCommit.Store(true)
		result, err := s.Transact(t.Context(), transaction(item("out", name), unfenced(d, queue.AckCompleted, d.Messages...), d.LeaseID))
		require.NoError(t, err)
		require.False(t, network.CutCommit.Load(), "the answer was lost")
		require.True(t, result.Applied, result.Error)
		require.True(t, result.Operations[1].Ack.LeaseReleased)
		require.Positive(t, len(heard.ready)+int(heard.resyncs.Load()))
		var stored int
		direct.scan(`SELECT count(*) FROM belfry.message WHERE id = $1`, []any{[16]byte(result.Operations[0].Push.MessageID)}, &stored)
		require.Equal(t, 1, stored)
	}
	var all int
	direct.scan(`SELECT count(*) FROM belfry.message`, nil, &all)
	require.Equal(t, 6, all)
	var committed int
	direct.scan(`SELECT c.committed FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'p'`, nil, &committed)
	require.Equal(t, 2, committed)
}

// Without a push, the store cannot detect whether the transaction was applied. The caller gets
// CodeUnavailable, and the transaction is not applied twice.
func TestATransactionOfAcksIsUnavailableAfterALostCommit(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.push("p", "1", "2")
	d := direct.pop(request("g", 1))
	fenced, open := transaction(unfenced(d, queue.AckCompleted, d.Messages...), d.LeaseID), transaction(unfenced(d, queue.AckCompleted, d.Messages...))
	network.CutCommit.Store(true)
	_, err := s.Transact(t.Context(), fenced)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	again, err := s.Transact(t.Context(), fenced)
	require.NoError(t, err)
	require.False(t, again.Applied, "the first try ended the lease")
	require.True(t, direct.applied(open).Operations[0].Ack.Success, "an ack of a completed message succeeds")
	require.Equal(t, []string{"2"}, transactionIDs(direct.pop(request("g", 10))))
}

// A client that missed the answer may send the transaction again, to any instance.
func TestARepeatedTransactionIsAppliedOnce(t *testing.T) {
	b := newBench(t)
	other := newStore(t, enginetest.Pool(t, b.pool.Config().ConnString()), prometheus.NewRegistry(), nil)
	b.push("p", "1", "2", "3")
	d := b.pop(request("g", 2))
	tx := func(payload string) *queue.Transaction {
		out := item("out", "a")
		out.Payload = []byte(payload)
		return transaction(unfenced(d, queue.AckCompleted, d.Messages[0]), unfenced(d, queue.AckDead, d.Messages[1]), out, item("out", ""), d.LeaseID)
	}
	first := b.applied(tx(`{"n":1}`))
	for _, s := range []*store.Store{b.Store, other} {
		again, err := s.Transact(t.Context(), tx(`{"n":1}`))
		require.NoError(t, err)
		require.True(t, again.Applied, again.Error)
		require.Equal(t, first.Operations[2].Push, again.Operations[2].Push, "the result names the first message")
		require.True(t, again.Operations[0].Ack.Success)
		require.True(t, again.Operations[1].Ack.DeadLettered)
		require.True(t, again.Operations[3].Push.MessageID.IsZero(), "the repetition cannot know the id of a message without a transaction id")
	}
	another := b.transact(tx(`{"n":2}`))
	require.False(t, another.Applied)
	require.Equal(t, `Duplicate transactionId "a" in queue "q", partition "out"`, another.Operations[2].Error)
	require.Equal(t, 5, b.count(`SELECT count(*) FROM belfry.message`))
}

// A cycle of a stream may be sent again too, and is applied once. A cycle that changes the state in another way is a
// different cycle, and is applied.
func TestARepeatedCycleIsAppliedOnce(t *testing.T) {
	b := newBench(t)
	partition, query := b.push("p", "1")[0].PartitionID, queue.NewID()
	b.exec(`INSERT INTO belfry.stream (uid, source, name, config_hash) VALUES ($1, 'q', 'n', 'h')`, [16]byte(query))
	cycle := func(value string) *queue.Transaction {
		tx := transaction(item("out", "a"))
		tx.Cycle = &queue.Cycle{Query: query, Partition: partition.String(), Changes: []queue.StateChange{{Key: "k", Value: json.RawMessage(value)}}}
		return tx
	}
	first := b.applied(cycle("1"))
	state := func() int { return b.count(`SELECT value::text::int FROM belfry.stream_state`) }
	b.exec(`UPDATE belfry.stream_state SET value = '0'`)
	require.Equal(t, first.Operations[0].Push, b.applied(cycle("1")).Operations[0].Push)
	require.Zero(t, state(), "the repeated cycle was not applied again")
	b.applied(cycle("2"))
	require.Equal(t, 2, state())
}

// Concurrent copies of one transaction are applied once.
func TestConcurrentCopiesOfATransactionAreAppliedOnce(t *testing.T) {
	b := newBench(t)
	other := newStore(t, enginetest.Pool(t, b.pool.Config().ConnString()), prometheus.NewRegistry(), nil)
	b.push("p", "1", "2")
	d := b.pop(request("g", 1))
	tx := transaction(unfenced(d, queue.AckCompleted, d.Messages...), item("out", "a"), d.LeaseID)
	ids := make([]queue.ID, 20)
	var work errgroup.Group
	for i := range ids {
		work.Go(func() error {
			result, err := []*store.Store{b.Store, other}[i%2].Transact(t.Context(), tx)
			if err == nil && !result.Applied {
				err = fmt.Errorf("refused: %s", result.Error)
			}
			if err == nil {
				ids[i] = result.Operations[1].Push.MessageID
			}
			return err
		})
	}
	require.NoError(t, work.Wait())
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
}

// A transaction that waits for a partition has not locked a cursor yet.
func TestTransactionsLockPartitionsFirst(t *testing.T) {
	b := newBench(t)
	b.push("held", "1", "2")
	d := b.pop(request("g", 2))
	release := b.lockRows(holdPartition)
	done := b.beginTransact(transaction(unfenced(d, queue.AckCompleted, d.Messages...), item("held", "3")))
	awaitLockWait(t, b)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM (SELECT 1 FROM belfry.cursor FOR UPDATE SKIP LOCKED) AS free`))
	release()
	got := <-done
	require.NoError(t, got.err)
	require.True(t, got.result.Applied, got.result.Error)
}

// Transactions that move messages among partitions in any order race each other, pushes, acks and
// pops. No deadlock occurs, no cursor is stranded, and no message is lost or duplicated.
func TestRacingTransactionsStrandNoCursor(t *testing.T) {
	const messages, hops, partitions, workers = 60, 12, 4, 6
	b := newBench(t)
	other := newStore(t, enginetest.Pool(t, b.pool.Config().ConnString()), prometheus.NewRegistry(), nil)
	b.register("g", "side")
	var arrived atomic.Int64
	var mu sync.Mutex
	ends := map[string]int{}
	work, ctx := errgroup.WithContext(t.Context())
	work.Go(func() error {
		for n := range messages {
			if _, err := b.Push(ctx, []queue.PushItem{item(fmt.Sprint("p", rand.IntN(partitions)), fmt.Sprintf("%d-0", n))}); err != nil {
				return err
			}
		}
		return nil
	})
	work.Go(func() error { // another group, so that acks and autoAck pops touch other cursors of the same partitions
		return drain(ctx, b, "side", false, func(int) bool { return arrived.Load() >= messages })
	})
	for worker := range workers {
		s := []*store.Store{b.Store, other}[worker%2]
		work.Go(func() error {
			for arrived.Load() < messages {
				req := request("g", 1+rand.IntN(4), across(1+rand.IntN(partitions)))
				d, err := s.Pop(ctx, req)
				if err != nil {
					return err
				}
				if len(d.Messages) == 0 {
					continue
				}
				var parts []any
				ended := []string{}
				for _, m := range d.Messages {
					var n, hop int
					if _, err := fmt.Sscanf(m.TransactionID, "%d-%d", &n, &hop); err != nil {
						return err
					}
					parts = append(parts, unfenced(d, queue.AckCompleted, m))
					if hop < hops {
						parts = append(parts, item(fmt.Sprint("p", rand.IntN(partitions)), fmt.Sprintf("%d-%d", n, hop+1)))
					} else {
						ended = append(ended, fmt.Sprint(n))
					}
				}
				rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				result, err := s.Transact(ctx, transaction(append(parts, d.LeaseID)...))
				if err != nil {
					return err
				}
				if !result.Applied {
					return fmt.Errorf("refused: %s", result.Error)
				}
				mu.Lock()
				for _, n := range ended {
					ends[n]++
				}
				mu.Unlock()
				arrived.Add(int64(len(ended)))
			}
			return nil
		})
	}
	require.NoError(t, work.Wait())
	require.Len(t, ends, messages)
	require.Equal(t, messages*(hops+1), b.count(`SELECT count(*) FROM belfry.message`))
	require.Zero(t, b.stranded())
	require.Zero(t, b.deadlocks())
	require.Empty(t, b.pop(request("g", 1)).Messages)
}

// transacted is the outcome of a transaction in the background.
type transacted struct {
	result queue.TransactionResult
	err    error
	tx     *queue.Transaction
	watch  *stopwatch.Stopwatch // since the call
}

func (b *bench) beginTransact(tx *queue.Transaction) <-chan transacted {
	out, got := make(chan transacted, 1), transacted{tx: tx, watch: stopwatch.Start(b.t)}
	go func() {
		got.result, got.err = b.Transact(b.t.Context(), tx)
		out <- got
	}()
	return out
}

// A transaction may wait for a cursor that a SQL consumer has locked, because of an ack or of a
// required lease. Meanwhile it blocks neither pushes to its partitions nor other transactions.
func TestAWaitingTransactionBlocksNoOtherCall(t *testing.T) {
	t.Parallel()
	const transactions = 6 // more than the number of flushes
	for _, by := range []string{"ack", "lease"} {
		for _, ends := range []bool{true, false} {
			t.Run(fmt.Sprintf("by %s, the holder releases the cursor: %v", by, ends), func(t *testing.T) {
				b := newBench(t, "g")
				b.push("out0", "before")
				other := b.pop(request("g", 1))
				b.push("p", numbered("m", transactions)...)
				d := b.pop(request("g", transactions))
				require.Len(t, d.Messages, transactions)
				release := b.lockRows(`SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
					WHERE p.name = 'p' FOR UPDATE OF c`)
				watch := stopwatch.Start(t)
				waiting := make([]<-chan transacted, transactions)
				for i, m := range d.Messages {
					moved := item(fmt.Sprint("out", i), "moved")
					if by == "ack" {
						waiting[i] = b.beginTransact(transaction(moved, unfenced(d, queue.AckCompleted, m)))
					} else {
						waiting[i] = b.beginTransact(transaction(moved, d.LeaseID))
					}
				}
				awaitLockWait(t, b)
				b.push("out0", "after")
				b.applied(transaction(item("elsewhere", "m"), acks(other, queue.AckCompleted, other.Messages...)))
				watch.Within(t, promptly, "the other calls are answered")

				stored := 0
				if ends {
					release()
					stored = transactions
				}
				for _, one := range waiting {
					got := <-one
					if ends && got.err != nil && pausedTooLong(got.watch) { // refused before the cursor was released
						got.result, got.err = b.Transact(t.Context(), got.tx)
					}
					if ends {
						require.NoError(t, got.err)
						require.True(t, got.result.Applied, got.result.Error)
					} else {
						b.requireHeld(acked{err: got.err})
					}
				}
				require.Equal(t, stored, b.count(`SELECT count(*) FROM belfry.message WHERE transaction_id = 'moved'`))
				require.Zero(t, b.deadlocks())
			})
		}
	}
}
