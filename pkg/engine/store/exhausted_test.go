package store_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// exhausted registers group g with the given onExhausted, and pushes messages to the partition p.
func exhausted(t *testing.T, onExhausted, options string, ids ...string) *bench {
	t.Helper()
	b := newBench(t, "g")
	b.onExhausted(onExhausted)
	b.option(options)
	b.push("p", ids...)
	return b
}

func (b *bench) onExhausted(mode string) {
	b.t.Helper()
	b.exec(`INSERT INTO belfry.group_limit (queue_id, group_name, on_exhausted) SELECT q.id, 'g', $1 FROM belfry.queue q
		ON CONFLICT (queue_id, group_name) DO UPDATE SET on_exhausted = excluded.on_exhausted`, mode)
	b.exec(`UPDATE belfry.consumer_group SET limits_id = (SELECT l.id FROM belfry.group_limit l)`)
}

// fail pops one message of group g, requires its id, and fails it.
func (b *bench) fail(id string) queue.AckResult {
	b.t.Helper()
	d := b.pop(request("g", 9))
	require.Equal(b.t, id, d.Messages[0].TransactionID)
	items := acks(d, queue.AckFailed, d.Messages[0])
	items[0].Error = "no stock"
	results, err := b.Ack(b.t.Context(), items)
	require.NoError(b.t, err)
	require.True(b.t, results[0].Success, results[0].Error)
	return results[0]
}

// requireBlocked requires that nothing is delivered to group g, whatever the pop names.
func (b *bench) requireBlocked() {
	b.t.Helper()
	require.True(b.t, b.holds(`SELECT retry_at = belfry.blocked() AND ready_at = retry_at AND lease_id IS NULL FROM belfry.cursor`))
	for _, autoAck := range []bool{false, true} {
		require.Empty(b.t, b.pop(request("g", 9, withAutoAck(autoAck))).Messages)
		require.Empty(b.t, b.pop(request("g", 9, withAutoAck(autoAck), from("p"))).Messages)
	}
	require.Zero(b.t, b.count(`SELECT count(*) FROM belfry.pop('q', 'g', 9)`))
	require.True(b.t, b.holds(`SELECT committed < 3 AND retry_at = belfry.blocked() FROM belfry.cursor`))
}

// With block, the partition stops before a message that used its retries. Pushes, wakes, changed options and a new server change
// nothing. The other partitions go on.
func TestAnExhaustedMessageBlocksItsPartition(t *testing.T) {
	b := exhausted(t, "block", "retry_limit = 1, retry_delay = 0", "a", "b", "c")
	require.Empty(t, b.fail("a").Exhausted)
	result := b.fail("a")
	require.Equal(t, queue.ExhaustedBlocked, result.Exhausted)
	require.True(t, result.LeaseReleased)
	require.False(t, result.DeadLettered)
	b.requireBlocked()
	b.push("p", "d")
	b.requireBlocked()
	b.option("retry_delay = 0, delayed_processing = 0")
	b.exec(`SELECT belfry.wake_partitions(ARRAY(SELECT id FROM belfry.partition))`)
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), nil)
	b.requireBlocked()
	require.Empty(t, b.deadLetters())
	require.Equal(t, 2, b.count(`SELECT count(*) FROM belfry.attempt WHERE result = 2 AND error = 'no stock'`))

	b.push("other", "x")
	d := b.pop(request("g", 9))
	require.Equal(t, []string{"x"}, transactionIDs(d))
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].Success)
}

// While a partition is blocked, an ack without a lease cannot pass the message. A dlq ack decides about it.
func TestAcksDoNotPassABlock(t *testing.T) {
	b := exhausted(t, "block", "retry_limit = 0", "a", "b", "c")
	d := b.pop(request("g", 9))
	require.Equal(t, queue.ExhaustedBlocked, b.ack(d, queue.AckFailed, d.Messages[0])[0].Exhausted)
	for _, status := range []queue.AckStatus{queue.AckCompleted, queue.AckFailed, queue.AckRetry} {
		for i := range d.Messages {
			items := acks(d, status, d.Messages[i])
			require.Equal(t, "Invalid or expired lease", b.ack(d, status, d.Messages[i])[0].Error)
			items[0].LeaseID = ""
			results, err := b.Ack(t.Context(), items)
			require.NoError(t, err)
			require.False(t, results[0].Success)
			require.Contains(t, results[0].Error, "blocked")
		}
	}
	b.requireBlocked()
	items := acks(d, queue.AckDead, d.Messages[0])
	items[0].LeaseID = ""
	results, err := b.Ack(t.Context(), items)
	require.NoError(t, err)
	require.True(t, results[0].DeadLettered)
	require.Equal(t, []string{"b", "c"}, transactionIDs(b.pop(request("g", 9))))
}

// With skip, the message is done, and no dead letter is made. An explicit dlq makes one.
func TestAnExhaustedMessageIsSkipped(t *testing.T) {
	b := exhausted(t, "skip", "retry_limit = 0", "a", "b", "c")
	result := b.fail("a")
	require.Equal(t, queue.ExhaustedSkipped, result.Exhausted)
	require.False(t, result.DeadLettered)
	require.Empty(t, b.deadLetters())
	require.Equal(t, 1, b.count(`SELECT count(*) FROM belfry.attempt`))
	require.True(t, b.holds(`SELECT consumed = 1 AND committed = 1 FROM belfry.cursor`))
	b.endLeases()
	d := b.pop(request("g", 1))
	require.Equal(t, []string{"b"}, transactionIDs(d))
	require.True(t, b.ack(d, queue.AckDead, d.Messages...)[0].DeadLettered)
	require.Len(t, b.deadLetters(), 1)
}

// A message that reached maxDeliveries because its consumers crash follows the same choice.
func TestMaxDeliveriesFollowsOnExhausted(t *testing.T) {
	t.Parallel()
	for _, viaSQL := range []bool{false, true} {
		for _, mode := range []string{"deadLetter", "block", "skip"} {
			t.Run(mode, func(t *testing.T) {
				b := exhausted(t, mode, "max_deliveries = 2", "a", "b", "c")
				for range 2 {
					require.Equal(t, "a", b.pop(request("g", 1)).Messages[0].TransactionID)
					b.endLeases()
				}
				if viaSQL {
					b.exec(`SELECT * FROM belfry.pop('q', 'g', 1)`)
				}
				if mode == "block" {
					require.Empty(t, b.pop(request("g", 1)).Messages)
					b.requireBlocked()
					require.Empty(t, b.deadLetters())
					require.Equal(t, 2, b.count(`SELECT count(*) FROM belfry.attempt WHERE result = 5`))
					return
				}
				b.endLeases()
				require.Equal(t, "b", b.pop(request("g", 1)).Messages[0].TransactionID)
				if mode == "skip" {
					require.Empty(t, b.deadLetters())
				} else {
					require.Len(t, b.deadLetters(), 1)
				}
				if !viaSQL {
					require.Equal(t, mode == "skip", enginetest.Metric(t, b.reg, "belfry_messages_skipped_total") == 1)
				}
			})
		}
	}
}

// A redriven message is out of order already. With block it becomes a dead letter again, and with skip it is done.
func TestRedrivenMessagesDoNotBlock(t *testing.T) {
	for _, mode := range []string{"block", "skip"} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t)
			b.redriven("1", "a", "crash", "c")
			b.onExhausted(mode)
			b.option("retry_limit = 0")
			require.Equal(t, mode == "skip", b.fail("a").Exhausted == queue.ExhaustedSkipped)
			require.Equal(t, []string{"crash"}, transactionIDs(b.pop(request("g", 1))))
			b.endLeases()
			d := b.pop(request("g", 1))
			require.Equal(t, []string{"c"}, transactionIDs(d))
			require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].Success)
			require.Len(t, b.deadLetters(), map[string]int{"block": 2, "skip": 0}[mode])
			require.True(t, b.holds(`SELECT retry_at IS NULL FROM belfry.cursor`))
		})
	}
}

// A redriven message is delivered while the log is blocked, and nothing that happens to it ends the block.
func TestRedrivenMessagesPassABlock(t *testing.T) {
	b := exhausted(t, "block", "retry_limit = 0", "a", "b", "c")
	d := b.pop(request("g", 9))
	b.ack(d, queue.AckDead, d.Messages[0])
	b.exec(`UPDATE belfry.cursor SET lease_until = now(), ready_at = now()`)
	require.Equal(t, queue.ExhaustedBlocked, b.fail("b").Exhausted)
	require.Equal(t, 1, b.redrive())
	d = b.pop(request("g", 9))
	require.Equal(t, []string{"a"}, transactionIDs(d))
	require.True(t, b.ack(d, queue.AckRetry, d.Messages...)[0].Success)
	d = b.pop(request("g", 9))
	require.Equal(t, []string{"a"}, transactionIDs(d))
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].Success)
	b.requireBlocked()
}

// An operation that removes the message ends the block.
func TestABlockEndsWithItsMessage(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"deleted":     `SELECT belfry.delete_message(p.id, 'a') FROM belfry.partition p`,
		"sought":      `SELECT belfry.seek_cursors(ARRAY[p.id], g.id, '-infinity') FROM belfry.partition p, belfry.consumer_group g`,
		"past a":      `SELECT belfry.move_cursors(p.id, 1, now()) FROM belfry.partition p`,
		"only b goes": `SELECT belfry.delete_message(p.id, 'b') FROM belfry.partition p`,
	} {
		t.Run(name, func(t *testing.T) {
			b := exhausted(t, "block", "retry_limit = 0", "a", "b", "c")
			b.fail("a")
			b.exec(statement)
			if name == "only b goes" {
				b.requireBlocked()
				return
			}
			want := "b"
			if name == "sought" {
				want = "a"
			}
			require.Equal(t, want, b.pop(request("g", 1)).Messages[0].TransactionID)
		})
	}
}

// Each way out ends the block in the order of the log, once.
func TestUnblock(t *testing.T) {
	t.Parallel()
	for action, want := range map[string][]string{"retry": {"a", "b", "c"}, "deadLetter": {"b", "c"}, "skip": {"b", "c"}} {
		t.Run(action, func(t *testing.T) {
			b := exhausted(t, "block", "retry_limit = 0, retry_delay = 3600000", "a", "b", "c")
			b.fail("a")
			require.True(t, b.holds(`SELECT belfry.unblock('q', 'p', 'g', $1)`, action))
			require.False(t, b.holds(`SELECT belfry.unblock('q', 'p', 'g', $1)`, action))
			d := b.pop(request("g", 9))
			require.Equal(t, want, transactionIDs(d))
			require.Equal(t, 1, d.Messages[0].Attempt)
			if action == "deadLetter" {
				require.Equal(t, []string{"a: no stock (1)"}, b.deadLetters())
			} else {
				require.Empty(t, b.deadLetters())
			}
			require.Equal(t, 2, b.count(`SELECT count(*) FROM belfry.audit WHERE action = 'delivery.unblock' AND partition = 'p'`))
			if action == "retry" {
				require.Equal(t, queue.ExhaustedBlocked, b.ack(d, queue.AckFailed, d.Messages[0])[0].Exhausted, "a used its retries again")
				b.requireBlocked()
			}
		})
	}
}
