package store_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A pop returns the target that it claimed from. A waiting request compares this target with its
// own.
func TestAPopReturnsTheTargetItSearched(t *testing.T) {
	b := newBench(t)
	req := request("g", 1)
	require.Zero(t, b.pop(req).Target, "the queue does not exist")

	resolve := func() queue.Target {
		t.Helper()
		target := b.resolve(req)
		return target
	}
	b.register()
	first := resolve()
	require.Equal(t, first, b.pop(req).Target)

	b.exec(sql.Query("engine/catalog/queue_delete"), "q")
	require.Equal(t, first, resolve(), "the target is cached")
	require.Zero(t, b.pop(req).Target, "the queue was deleted")

	b.register()
	second := resolve()
	require.NotEqual(t, first, second)
	require.Equal(t, second, b.pop(req).Target)
	b.push("p", "m")
	delivery := b.pop(req)
	require.Equal(t, second, delivery.Target)
	require.Len(t, delivery.Messages, 1)
}

// A group is deleted while a pop waits, and the pop creates it again. With the mode "new", the new
// group does not get messages from before the deletion. If the queue was deleted too, the group
// gets every message of the new queue.
func TestAWaitingPopRecreatesItsGroupWithoutOldMessages(t *testing.T) {
	b := newBench(t)
	b.register()
	b.exec(`UPDATE belfry.queue SET created_at = created_at - interval '1 day'`)
	req := request("g", 9)
	req.WaitingSince, req.Subscription = time.Now().Add(-time.Minute), queue.Subscription{Mode: queue.SubscribeNew}
	require.Empty(t, b.pop(req).Messages)
	b.push("p", "before")
	b.exec(`DELETE FROM belfry.consumer_group`)
	require.Empty(t, b.pop(req).Messages)

	b.exec(`UPDATE belfry.queue SET deleted_at = clock_timestamp()`)
	b.push("p", "in the new queue")
	require.Equal(t, []string{"in the new queue"}, transactionIDs(b.pop(req)))
}

// A queue is created while a pop waits, and the registration of the group then waits for a connection.
// Nevertheless, the first message of the queue is new to the group, because the wait for the connection
// does not move the start.
func TestASlowRegistrationDoesNotMoveTheStartOfAGroup(t *testing.T) {
	b := newBench(t)
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.PoolSize = setting.Secret(b.pool.Config().ConnString()), 1
	one, err := postgres.Open(t.Context(), cfg, "one", 0)
	require.NoError(t, err)
	t.Cleanup(one.Close)
	s := newStore(t, one, prometheus.NewRegistry(), nil)

	req := request("g", 9)
	req.WaitingSince, req.Subscription = time.Now(), queue.Subscription{Mode: queue.SubscribeNew}
	b.push("p", "first")

	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	enginetest.Exec(t, tx, `LOCK TABLE belfry.queue`)
	popped := make(chan queue.Delivery, 1)
	go func() {
		d, err := s.Pop(t.Context(), req)
		assert.NoError(t, err)
		popped <- d
	}()
	awaitLockWait(t, b)
	next := make(chan *pgxpool.Conn, 1)
	go func() {
		conn, err := one.Acquire(t.Context()) // after the look-up of the group, before the registration
		assert.NoError(t, err)
		next <- conn
	}()
	b.exec(`SELECT pg_sleep(0.1)`)
	require.NoError(t, tx.Rollback(t.Context()))
	conn := <-next
	b.exec(`SELECT pg_sleep(0.3)`)
	conn.Release()
	require.Equal(t, []string{"first"}, transactionIDs(<-popped))
}

// payloadBytes is the size of the payloads of these tests. Postgres compresses payloads of this size.
const payloadBytes = 10_000

// pushPayloads pushes n messages of payloadBytes to a partition.
func (b *bench) pushPayloads(partition string, n int, compressible bool) {
	b.t.Helper()
	for i := range n {
		text := strings.Repeat("a", payloadBytes-2)
		if !compressible {
			random := make([]byte, payloadBytes/2-1)
			_, _ = rand.Read(random) // never fails
			text = hex.EncodeToString(random)
		}
		_, err := b.Push(b.t.Context(), []queue.PushItem{{
			Queue: "q", Partition: partition, TransactionID: fmt.Sprintf("%s%d", partition, i), Payload: []byte(`"` + text + `"`),
		}})
		require.NoError(b.t, err)
	}
}

// requirePop pops from up to ten partitions and requires the messages.
func (b *bench) requirePop(autoAck bool, want ...string) queue.Delivery {
	b.t.Helper()
	req := request("g", 100, across(10), withAutoAck(autoAck))
	d := b.pop(req)
	require.Equal(b.t, want, transactionIDs(d))
	if !autoAck {
		b.ack(d, queue.AckCompleted, d.Messages...)
	}
	return d
}

// The messages of a pop, from all its partitions together, fit into its limit of bytes. A pop may
// always deliver one message. The other messages are ready after the ack.
func TestAPopDeliversNoMoreBytesThanItsLimit(t *testing.T) {
	t.Parallel()
	const room = payloadBytes + 1100 // for one message
	for _, compressible := range []bool{false, true} {
		for _, autoAck := range []bool{false, true} {
			t.Run(fmt.Sprintf("compressible=%t/autoAck=%t", compressible, autoAck), func(t *testing.T) {
				b := newBench(t, "g")
				b.pushPayloads("a", 3, compressible)
				b.pushPayloads("b", 3, compressible)
				b.LimitPops(2 * room)
				b.requirePop(autoAck, "a0", "a1")
				b.LimitPops(2*room - 1100)
				b.requirePop(autoAck, "b0")
				b.LimitPops(3 * room)
				d := b.requirePop(autoAck, "a2", "b1", "b2")
				require.Equal(t, 2, d.Partitions)

				b.pushPayloads("c", 2, compressible)
				b.LimitPops(1)
				b.requirePop(autoAck, "c0")
				b.LimitPops(2 * room)
				b.requirePop(autoAck, "c1")
				require.Zero(t, b.stranded())
			})
		}
	}
}

// The limit also counts redriven messages, together with the messages of other partitions.
func TestARedeliveryDeliversNoMoreBytesThanItsLimit(t *testing.T) {
	t.Parallel()
	const room = payloadBytes + 1100
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprintf("autoAck=%t", autoAck), func(t *testing.T) {
			b := newBench(t, "g")
			b.pushPayloads("a", 4, true)
			b.deadLetter("a0", "a1", "a2", "a3")
			require.Equal(t, 4, b.redrive())
			b.LimitPops(2 * room)
			b.requirePop(autoAck, "a0", "a1")
			b.LimitPops(1)
			b.requirePop(autoAck, "a2")

			b.pushPayloads("b", 1, true)
			b.exec(`UPDATE belfry.cursor c SET ready_at = '2020-01-01' FROM belfry.partition p WHERE p.id = c.partition_id AND p.name = 'b'`)
			b.LimitPops(2*room - 1100)
			b.requirePop(autoAck, "b0")
			b.requirePop(autoAck, "a3")
			b.requireRedrives(0)
		})
	}
}

// Metrics count expired messages that a pop skips, even if no message after them fits into the
// limit.
func TestAPopCountsSkippedMessagesEvenIfNothingFits(t *testing.T) {
	b := newBench(t, "g")
	b.pushPayloads("a", 1, false)
	b.pushPayloads("b", 2, false)
	b.option("expire_after_seconds = 60")
	b.exec(`UPDATE belfry.message SET created_at = now() - interval '1 hour' WHERE transaction_id = 'b0'`)
	b.LimitPops(1)
	b.requirePop(false, "a0")
	require.Equal(t, 1, b.count(`SELECT sum(expired) FROM belfry.cursor`))
	b.requirePop(false, "b1")
}

// A pop without memory for its messages is refused. The messages stay ready, and no delivery is
// counted. If the size of the messages is known, the refused pop makes no claim. With memory, the pop
// delivers, and uses only the memory that its messages need.
func TestAPopWithoutMemoryGivesItsMessagesBack(t *testing.T) {
	t.Parallel()
	const size = payloadBytes + 330
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprintf("autoAck=%t", autoAck), func(t *testing.T) {
			b := newBench(t, "g")
			b.pushPayloads("a", 2, false)
			budget := inflight.NewBudget(2*inflight.AnswerCopies*4*size, 1<<20)
			others := budget.Reservation()
			require.True(t, others.TakeAnswer(4*size-size/2))
			held := budget.Used()
			req := request("g", 2)
			req.AutoAck, req.Memory = autoAck, budget.Reservation()
			before, flushes := b.cursorStates("g"), int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "claim"))+int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "take"))
			for range 2 {
				_, err := b.Pop(t.Context(), req)
				require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err), "%v", err)
				require.Equal(t, before, b.cursorStates("g"))
				require.Equal(t, held, budget.Used())
			}
			require.Equal(t, 1, int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "claim"))+int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "take"))-flushes, "the second pop makes no claim")
			target := b.resolve(req)
			inRound := b.claim(req, target)
			require.True(t, inRound.Contested)
			require.Empty(t, inRound.Messages)
			require.Equal(t, before, b.cursorStates("g"))

			others.End()
			d := b.pop(req)
			require.Equal(t, []string{"a0"}, transactionIDs(d), "half of the memory stays free for other pops")
			require.EqualValues(t, d.Messages[0].AnswerSize()*inflight.AnswerCopies, budget.Used())
			empty := request("g", 100)
			empty.Memory = budget.Reservation()
			if !autoAck {
				require.Empty(t, b.pop(empty).Messages)
				require.EqualValues(t, d.Messages[0].AnswerSize()*inflight.AnswerCopies, budget.Used(), "an empty pop uses no memory")
			}
		})
	}
}

// If the waiting request has no memory, a push makes no handoff, and its message is ready.
func TestAHandoffWithoutMemoryLeavesTheMessageReady(t *testing.T) {
	budget := inflight.NewBudget(2*inflight.AnswerCopies*10_000, 1<<20)
	others := budget.Reservation()
	require.True(t, others.TakeAnswer(9_500))
	req := request("g", 1)
	req.Memory = budget.Reservation()
	b, r := waiting(t, req)
	b.push("p", "a")
	require.Len(t, r.taken, 1)
	require.Empty(t, r.taken[0].Messages)
	others.End()
	require.Zero(t, budget.Used())
	require.Equal(t, []string{"a"}, transactionIDs(b.pop(req)))
}

// A pop that asks for more than batch.max_size messages often finds none. So such pops do not count
// as oversized, and may use all flights.
func TestPopsOfAnySizeUseAllFlights(t *testing.T) {
	t.Parallel()
	for op, autoAck := range map[string]bool{"claim": false, "take": true} {
		t.Run(op, func(t *testing.T) {
			b := newBench(t)
			b.reg = prometheus.NewRegistry()
			b.Store = newStore(t, b.pool, b.reg, nil, func(c *batch.Config) { c.MaxSize, c.ConcurrentSize, c.MaxFlushes = 10, 10, 4 })
			b.register("g")
			release := b.takeAllConnections()
			outcomes := make(chan error, 4)
			for range cap(outcomes) {
				go func() {
					req := request("g", 11, withAutoAck(autoAck))
					_, err := b.Pop(t.Context(), req)
					outcomes <- err
				}()
			}
			b.awaitGauge("belfry_batch_flushes_in_flight", op, 4)
			release()
			for range cap(outcomes) {
				require.NoError(t, <-outcomes)
			}
		})
	}
}
