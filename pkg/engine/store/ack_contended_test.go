package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/ack"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// promptly limits the duration of a call while another session has locked a cursor that the call
// does not need. Such a call takes 0.1 s.
const promptly = time.Second

// acked is the outcome of an ack in the background, and its duration.
type acked struct {
	results []queue.AckResult
	err     error
	took    time.Duration
	items   []queue.AckItem
	watch   *stopwatch.Stopwatch // since the call
}

func (b *bench) beginAck(items []queue.AckItem) <-chan acked {
	out, a := make(chan acked, 1), acked{items: items, watch: stopwatch.Start(b.t)}
	go func() {
		a.results, a.err = b.Ack(b.t.Context(), items)
		a.took = a.watch.Elapsed()
		out <- a
	}()
	return out
}

// pausedTooLong reports whether the machine has paused for so long since the start of the stopwatch that a call may have
// timed out before its cursor was free.
func pausedTooLong(watch *stopwatch.Stopwatch) bool { return watch.Allowed(0) > ack.Patience }

func (b *bench) requireHeld(a acked) {
	b.t.Helper()
	require.Equal(b.t, queue.CodeUnavailable, queue.CodeOf(a.err))
	require.ErrorContains(b.t, a.err, "a consumer in SQL holds the partition")
}

// requireAcked requires that a call succeeded. If the call was refused because the machine paused, requireAcked
// repeats it. Its cursors are free now.
func (b *bench) requireAcked(a acked) {
	b.t.Helper()
	if a.err != nil && pausedTooLong(a.watch) {
		b.requireHeld(a)
		a.results, a.err = b.Ack(b.t.Context(), a.items)
	}
	require.NoError(b.t, a.err)
	for _, r := range a.results {
		require.True(b.t, r.Success, r.Error)
	}
}

// lateDelivery returns the delivery of an HTTP consumer whose lease has ended. It also returns the open
// transaction of a SQL consumer that has then popped the same message.
func (b *bench) lateDelivery() (queue.Delivery, pgx.Tx) {
	b.t.Helper()
	b.register("g")
	b.push("p", "1")
	d := b.pop(request("g", 1))
	b.endLeases()
	tx := b.begin(b.connect())
	require.Len(b.t, b.sqlPop(tx, "g", 1, 1), 1)
	return d, tx
}

// popEach pushes one message to each of n partitions, and makes one pop for each message.
func (b *bench) popEach(prefix string, n int) []queue.Delivery {
	b.t.Helper()
	for _, partition := range numbered(prefix, n) {
		b.push(partition, "m")
	}
	deliveries := make([]queue.Delivery, n)
	for i := range deliveries {
		deliveries[i] = b.pop(request("g", 1))
		require.Len(b.t, deliveries[i].Messages, 1)
	}
	return deliveries
}

// A flush holds an ack of a cursor that a SQL consumer has locked and twenty acks of other cursors.
// The other acks are answered promptly. The contended ack succeeds when the cursor is free, or is
// refused after ack.Patience.
func TestOtherAcksDoNotWaitForALockedCursor(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{true, false} {
		t.Run(fmt.Sprintf("the SQL transaction ends: %v", ends), func(t *testing.T) {
			b := oneByOne(t)
			d, tx := b.lateDelivery()
			deliveries := b.popEach("s", 20)
			release := b.takeAllConnections()
			strangers := []<-chan acked{b.beginAck(acks(deliveries[0], queue.AckCompleted, deliveries[0].Messages...))}
			b.awaitGauge("belfry_batch_flushes_in_flight", "ack", 1)
			held := b.beginAck(unfenced(d, queue.AckCompleted, d.Messages...))
			b.awaitQueued("ack", 1)
			for i, next := range deliveries[1:] {
				strangers = append(strangers, b.beginAck(acks(next, queue.AckCompleted, next.Messages...)))
				b.awaitQueued("ack", 2+i)
			}
			watch := stopwatch.Start(t)
			release()
			for _, next := range strangers {
				b.requireAcked(<-next)
			}
			watch.Within(t, promptly, "the other acks are answered")
			if ends {
				require.NoError(t, tx.Rollback(t.Context()))
				b.requireAcked(<-held)
				require.Equal(t, 21, b.consumed())
				return
			}
			b.requireHeld(<-held)
			require.GreaterOrEqual(t, watch.Elapsed(), ack.Patience-100*time.Millisecond)
			require.NoError(t, tx.Rollback(t.Context()))
			require.Equal(t, 20, b.consumed())
			b.requireAcked(<-b.beginAck(unfenced(d, queue.AckCompleted, d.Messages...)))
		})
	}
}

// Many calls wait for many locked cursors. Other calls are served meanwhile, and only a few
// connections wait.
func TestManyContendedCallsLeaveConnectionsFree(t *testing.T) {
	const cursors, calls, turns = 12, 3, 4
	b := newBench(t, "g")
	deliveries := b.popEach("held", cursors)
	release := b.lockRows(`SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name LIKE 'held%' FOR UPDATE OF c`)
	watch := b.connect()
	var held []<-chan acked
	for range calls {
		for _, d := range deliveries {
			held = append(held, b.beginAck(acks(d, queue.AckCompleted, d.Messages...)))
		}
	}
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; {
		strangers := stopwatch.Start(t)
		b.push("s", queue.NewID().String())
		d := b.pop(request("g", 1))
		require.Len(t, d.Messages, 1)
		b.requireAcked(<-b.beginAck(acks(d, queue.AckCompleted, d.Messages...)))
		strangers.Within(t, promptly, "a push, a pop and an ack")
		require.LessOrEqual(t, enginetest.Value[int](t, watch, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`), turns+1, "the connections of the contended calls, and one flush")
	}
	for _, next := range held {
		b.requireHeld(<-next)
	}
	release()
	for _, d := range deliveries {
		b.requireAcked(<-b.beginAck(acks(d, queue.AckCompleted, d.Messages...)))
	}
	require.Zero(t, b.stranded())
	require.Zero(t, b.deadlocks())
}

// The number of locked cursors exceeds the number of connections that wait for cursors. A call gets
// its cursor when the cursor is released, although other cursors stay locked.
func TestContendedCallsTakeTurns(t *testing.T) {
	const cursors = 8
	b := newBench(t, "g")
	deliveries := b.popEach("held", cursors)
	released := make([]func(), cursors)
	held := make([]<-chan acked, cursors)
	for i, d := range deliveries {
		released[i] = b.lockRows(fmt.Sprintf(`SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
			WHERE p.name = '%s' FOR UPDATE OF c`, d.Messages[0].Partition.Name))
	}
	begin := func() *stopwatch.Stopwatch {
		watch := stopwatch.Start(t)
		for i, d := range deliveries {
			held[i] = b.beginAck(acks(d, queue.AckCompleted, d.Messages...))
		}
		return watch
	}
	watch := begin()
	enginetest.Await(t, "calls without a connection", func() bool {
		if watch.Elapsed() > ack.Patience { // the machine paused, and the calls are refused
			for _, next := range held {
				b.requireHeld(<-next)
			}
			watch = begin()
		}
		return b.gaugeReaches("belfry_batch_queue_depth", "held", cursors-4)
	})
	for _, i := range []int{7, 0} {
		released[i]()
		b.requireAcked(<-held[i])
	}
	for _, next := range held[1:7] {
		b.requireHeld(<-next)
	}
}

// A call acknowledges messages of several partitions, and one cursor is locked by another session.
// While the call waits, it holds no lock on the other cursors.
func TestAContendedCallLocksNothingWhileItWaits(t *testing.T) {
	b := newBench(t, "g")
	b.push("a", "1", "2")
	b.push("b", "3")
	req := request("g", 9, across(2))
	d := b.pop(req)
	require.Len(t, d.Messages, 3)
	byID := map[string]queue.Message{}
	for _, m := range d.Messages {
		byID[m.TransactionID] = m
	}
	release := b.lockRows(`SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'b' FOR UPDATE OF c`)
	wide := b.beginAck(unfenced(d, queue.AckCompleted, byID["1"], byID["3"]))
	b.awaitGauge("belfry_batch_flushes_in_flight", "held", 1)
	awaitLockWait(t, b)
	var free int
	b.scan(`SELECT count(*) FROM (SELECT 1 FROM belfry.cursor FOR UPDATE SKIP LOCKED) AS free`, nil, &free)
	require.Equal(t, 2, free, "the cursors of p and a are free")
	stranger := <-b.beginAck(acks(d, queue.AckCompleted, byID["2"]))
	b.requireAcked(stranger)
	require.Less(t, stranger.took, stranger.watch.Allowed(promptly))
	release()
	b.requireAcked(<-wide)
	require.Equal(t, 3, b.consumed())
	require.Zero(t, b.deadlocks())
}

// Calls that wait for one cursor are applied together. If the database refuses a value of one call,
// here a dead letter, only this call fails.
func TestABadContendedCallFailsAlone(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", numbered("m", 10)...)
	b.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '22023'; END $$`)
	b.exec(`CREATE TRIGGER refuse BEFORE INSERT ON belfry.dead_letter FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	d := b.pop(request("g", 10))
	release := b.lockRows(holdCursors)
	const bad = 9
	outs := make([]<-chan acked, len(d.Messages))
	for i, m := range d.Messages {
		items := unfenced(d, queue.AckCompleted, m)
		if i == bad {
			items[0].Status = queue.AckDead
		}
		outs[i] = b.beginAck(items)
	}
	b.awaitGauge("belfry_batch_flushes_in_flight", "held", 1)
	release()
	for i, out := range outs {
		if a := <-out; i == bad && !pausedTooLong(a.watch) {
			require.Equal(t, queue.CodeInvalid, queue.CodeOf(a.err))
		} else if i != bad {
			b.requireAcked(a)
		}
	}
	require.Empty(t, b.deadLetters())
}

// A contended call ends at its request timeout, and Close answers the waiting calls.
func TestAContendedCallIsAlwaysAnswered(t *testing.T) {
	b := newBench(t, "g")
	d := b.popEach("p", 1)[0]
	b.lockRows(holdCursors)
	short := *b
	short.Store = newStore(t, newPool(t, b.pool.Config().ConnString(), promptly), prometheus.NewRegistry(), nil)
	soon := <-short.beginAck(acks(d, queue.AckCompleted, d.Messages...))
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(soon.err))
	if !pausedTooLong(soon.watch) {
		b.requireHeld(soon)
	}
	require.Less(t, soon.took, soon.watch.Allowed(ack.Patience-100*time.Millisecond))

	closing := *b
	closing.reg = prometheus.NewRegistry()
	closing.Store = newStore(t, b.pool, closing.reg, nil, func(c *batch.Config) { c.MaxFlushes = 1 })
	var calls errgroup.Group
	for range 3 {
		calls.Go(func() error {
			_, err := closing.Ack(context.WithoutCancel(t.Context()), acks(d, queue.AckCompleted, d.Messages...))
			if queue.CodeOf(err) != queue.CodeUnavailable {
				return fmt.Errorf("answered: %w", err)
			}
			return nil
		})
	}
	closing.awaitGauge("belfry_batch_flushes_in_flight", "held", 1)
	require.NoError(t, closing.Close(t.Context()))
	require.NoError(t, calls.Wait())
	require.Zero(t, b.consumed())
}
