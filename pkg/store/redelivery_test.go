package store_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
)

// bury pops all of group g and dead-letters the named messages, and completes
// the others when they come before the last one.
func (b *bench) bury(ids ...string) {
	b.t.Helper()
	d := b.pop(request("g", 100))
	for _, m := range d.Messages {
		status := queue.AckCompleted
		for _, id := range ids {
			if m.TransactionID == id {
				status = queue.AckDead
			}
		}
		require.True(b.t, b.ack(d, status, m)[0].Success)
	}
}

// redrive puts every dead letter back, and wakes nobody.
func (b *bench) redrive() (n int) {
	b.t.Helper()
	b.scan(`SELECT coalesce(sum(r.redriven), 0) FROM belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter)) r`, nil, &n)
	return n
}

// redrives is what is left of them: by the cursor, and by the rows.
func (b *bench) redrives() (cursor, rows int) {
	b.t.Helper()
	b.scan(`SELECT coalesce((SELECT redrives FROM belfry.cursor WHERE redrives IS NOT NULL), 0), (SELECT count(*) FROM belfry.redrive)`,
		nil, &cursor, &rows)
	return cursor, rows
}

func (b *bench) requireRedrives(n int) {
	b.t.Helper()
	cursor, rows := b.redrives()
	require.Equal(b.t, []int{n, n}, []int{cursor, rows}, "by the cursor, by the rows")
}

func (b *bench) committed() (seq int) {
	b.t.Helper()
	b.scan(`SELECT committed FROM belfry.cursor`, nil, &seq)
	return seq
}

// What is redriven is delivered before the log, in its order, in a delivery of
// its own; the acknowledgment of one message settles that one and does not move
// the cursor.
func TestRedrivenMessagesComeFirstAndAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "a", "b", "c", "d")
	b.bury("b", "d", "a")
	b.push("p", "e", "f")
	require.Equal(t, 3, b.redrive())
	require.Zero(t, b.redrive(), "twice is once")
	b.requireRedrives(3)

	first := b.pop(request("g", 2))
	require.Equal(t, []string{"a", "b"}, transactionIDs(first))
	require.Equal(t, 2, first.Messages[0].Attempt)
	require.Empty(t, b.pop(request("g", 9)).Messages, "one lease")
	require.Equal(t, []queue.AckResult{{Success: true, Resolved: true, Queue: "q", Partition: "p"}}, b.ack(first, queue.AckCompleted, first.Messages[1]))
	b.requireRedrives(2)
	require.Equal(t, 4, b.committed())
	require.True(t, b.ack(first, queue.AckCompleted, first.Messages[1])[0].Success, "said again")
	require.True(t, b.ack(first, queue.AckCompleted, first.Messages[0])[0].LeaseReleased, "the last one ends the lease")

	second := b.pop(request("g", 9))
	require.Equal(t, []string{"d"}, transactionIDs(second), "not with the log")
	require.True(t, b.ack(second, queue.AckCompleted, second.Messages...)[0].LeaseReleased)
	b.requireRedrives(0)
	require.Equal(t, []string{"e", "f"}, transactionIDs(b.pop(request("g", 9))))
	require.Equal(t, 4, b.committed())
}

// A redriven message goes on counting where it stopped: one more failure at the
// limit, and it is a dead letter again, with the newer error.
func TestARedrivenMessageFailsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "a", "b")
	b.bury("a", "b")
	b.exec(`UPDATE belfry.dead_letter SET attempts = CASE seq WHEN 1 THEN 3 ELSE 1 END`)
	require.Equal(t, 2, b.redrive())
	d := b.pop(request("g", 9))
	items := acks(d, queue.AckFailed, d.Messages...)
	items[0].Error, items[1].Error = "newer", "not yet"
	results, err := b.Ack(t.Context(), items)
	require.NoError(t, err)
	require.True(t, results[0].DeadLettered && results[0].Success)
	require.True(t, !results[1].DeadLettered && results[1].Success && results[1].LeaseReleased)
	var failures int
	var reason string
	b.scan(`SELECT attempts, error FROM belfry.dead_letter WHERE seq = 1`, nil, &failures, &reason)
	require.Equal(t, 4, failures)
	require.Equal(t, "newer", reason)
	b.requireRedrives(1)

	d = b.pop(request("g", 9))
	require.Equal(t, []string{"b"}, transactionIDs(d))
	require.Equal(t, 4, d.Messages[0].Attempt)
	b.scan(`SELECT failures FROM belfry.redrive`, nil, &failures)
	require.Equal(t, 2, failures)
	require.True(t, b.ack(d, queue.AckRetry, d.Messages...)[0].LeaseReleased)
	require.Equal(t, []string{"b"}, transactionIDs(b.pop(request("g", 9))), "retry counts nothing and loses nothing")
}

// A release gives a redelivery back uncounted; an expired lease is fenced.
func TestARedeliveryIsReleasedAndFenced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "a")
	b.bury("a")
	b.redrive()
	d := b.pop(request("g", 9))
	require.NoError(t, b.Release(t.Context(), d.LeaseID))
	again := b.pop(request("g", 9))
	require.Equal(t, d.Messages[0].Attempt, again.Messages[0].Attempt)
	b.exec(`UPDATE belfry.cursor SET lease_until = statement_timestamp(), ready_at = statement_timestamp()`)
	last := b.pop(request("g", 9))
	require.Equal(t, []string{"a"}, transactionIDs(last))
	for _, stale := range []queue.Delivery{d, again} {
		require.Equal(t, "Invalid or expired lease", b.ack(stale, queue.AckCompleted, stale.Messages...)[0].Error)
	}
	b.requireRedrives(1)
	last.LeaseID = queue.ID{}
	require.True(t, b.ack(last, queue.AckCompleted, last.Messages...)[0].LeaseReleased, "without a lease there is no check")
	b.requireRedrives(0)
	require.Empty(t, b.pop(request("g", 9)).Messages)
}

// A dead letter in front of what is not done yet is redriven without taking that
// along.
func TestARedeliveryInTheMiddleOfALease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "a", "b", "c")
	d := b.pop(request("g", 9))
	require.True(t, b.ack(d, queue.AckDead, d.Messages[1])[0].DeadLettered)
	require.Equal(t, 1, b.redrive())
	require.Empty(t, b.pop(request("g", 9)).Messages, "the lease goes on")
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages[0], d.Messages[1])[1].Success)
	b.requireRedrives(1)
	require.True(t, b.ack(d, queue.AckRetry, d.Messages[2])[0].LeaseReleased)
	again := b.pop(request("g", 9))
	require.Equal(t, []string{"b"}, transactionIDs(again))
	require.True(t, b.ack(again, queue.AckCompleted, again.Messages...)[0].LeaseReleased)
	require.Equal(t, []string{"c"}, transactionIDs(b.pop(request("g", 9))))
	require.Zero(t, b.stranded())
}

// Redriven messages wait for no delay: what lies behind them may.
func TestARedriveDoesNotWaitForTheLog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "a", "x")
	b.bury("a", "x")
	b.exec(`UPDATE belfry.queue SET delayed_processing = 3600`)
	b.push("p", "later")
	require.Equal(t, 2, b.redrive())
	for range 2 {
		d := b.pop(request("g", 1))
		require.Len(t, d.Messages, 1)
		require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].Success)
	}
	require.Empty(t, b.pop(request("g", 1)).Messages)
}

// autoAck settles on delivery, and what cannot be opened is put back.
func TestRedeliveryWithAutoAck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealer, err := seal.New(seal.Config{Key: strings.Repeat("7", 64)})
	require.NoError(t, err)
	keyless := b.Store
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), sealer)
	b.register("g")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	b.push("p", "a", "b", "c")
	b.bury("a", "c")
	b.redrive()
	req := request("g", 1)
	req.AutoAck = true
	_, err = keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	b.requireRedrives(2)
	require.Equal(t, 3, b.committed())
	require.Equal(t, []string{"a"}, transactionIDs(b.pop(req)))
	b.requireRedrives(1)
	require.Equal(t, []string{"c"}, transactionIDs(b.pop(req)))
	require.Empty(t, b.pop(req).Messages)
	b.requireRedrives(0)
}

// A crash between a commit and its wake leaves redriven messages asleep; healing
// finds them.
func TestHealingFindsRedrivenMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "a")
	b.bury("a")
	b.redrive()
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	require.Empty(t, b.pop(request("g", 1)).Messages)
	healed, err := b.Heal(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, healed)
	require.Equal(t, []string{"a"}, transactionIDs(b.pop(request("g", 1))))
}
