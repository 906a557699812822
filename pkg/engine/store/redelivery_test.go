package store_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// deadLetter pops all messages of group g. It makes the named messages dead letters and completes the
// other messages.
func (b *bench) deadLetter(ids ...string) {
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

// redrive redrives every dead letter and wakes no waiting request.
func (b *bench) redrive() (n int) {
	b.t.Helper()
	b.scan(`SELECT coalesce(sum(r.redriven), 0) FROM belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter)) r`, nil, &n)
	return n
}

// redrives returns the number of redriven messages that wait: the number in the cursor, and the
// number of rows in belfry.redrive.
func (b *bench) redrives() (cursor, rows int) {
	b.t.Helper()
	b.scan(`SELECT coalesce((SELECT redrives FROM belfry.cursor WHERE redrives IS NOT NULL), 0), (SELECT count(*) FROM belfry.redrive)`,
		nil, &cursor, &rows)
	return cursor, rows
}

func (b *bench) requireRedrives(n int) {
	b.t.Helper()
	cursor, rows := b.redrives()
	require.Equal(b.t, []int{n, n}, []int{cursor, rows}, "the number in the cursor, and the number of rows")
}

func (b *bench) committed() (seq int) {
	b.t.Helper()
	b.scan(`SELECT committed FROM belfry.cursor`, nil, &seq)
	return seq
}

// Redriven messages are delivered before the log, in their order and in separate deliveries. An ack
// of a redriven message completes only this message and does not move the cursor.
func TestRedrivenMessagesAreDeliveredFirstAndSeparately(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a", "b", "c", "d")
	b.deadLetter("b", "d", "a")
	b.push("p", "e", "f")
	require.Equal(t, 3, b.redrive())
	require.Zero(t, b.redrive(), "a second redrive finds no dead letter")
	b.requireRedrives(3)

	first := b.pop(request("g", 2))
	require.Equal(t, []string{"a", "b"}, transactionIDs(first))
	require.Equal(t, 2, first.Messages[0].Attempt)
	require.Empty(t, b.pop(request("g", 9)).Messages, "the partition is leased")
	require.Equal(t, []queue.AckResult{{Success: true, Resolved: true, Queue: "q", Partition: "p"}}, b.ack(first, queue.AckCompleted, first.Messages[1]))
	b.requireRedrives(2)
	require.Equal(t, 4, b.committed())
	require.True(t, b.ack(first, queue.AckCompleted, first.Messages[1])[0].Success, "a repeated ack succeeds")
	require.True(t, b.ack(first, queue.AckCompleted, first.Messages[0])[0].LeaseReleased, "the ack of the last message ends the lease")

	second := b.pop(request("g", 9))
	require.Equal(t, []string{"d"}, transactionIDs(second), "a delivery of redriven messages has no message of the log")
	require.True(t, b.ack(second, queue.AckCompleted, second.Messages...)[0].LeaseReleased)
	b.requireRedrives(0)
	require.Equal(t, []string{"e", "f"}, transactionIDs(b.pop(request("g", 9))))
	require.Equal(t, 4, b.committed())
}

// A redriven message keeps its failure count. If the count has reached retryLimit, one more failure
// makes the message a dead letter again, with the newer error.
func TestARedrivenMessageKeepsItsFailures(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a", "b")
	b.deadLetter("a", "b")
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
	require.Equal(t, []string{"b"}, transactionIDs(b.pop(request("g", 9))), "a retry counts no failure")
}

// A released redelivery does not count as an attempt. An ack under an expired lease of a redelivery
// is refused.
func TestARedeliveryIsReleasedAndFenced(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a")
	b.deadLetter("a")
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
	require.True(t, b.ack(last, queue.AckCompleted, last.Messages...)[0].LeaseReleased, "an ack without a lease is not checked")
	b.requireRedrives(0)
	require.Empty(t, b.pop(request("g", 9)).Messages)
}

// A redrive of a dead letter of a leased batch does not affect the lease and the later messages of
// the batch.
func TestARedriveDoesNotAffectARunningLease(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a", "b", "c")
	d := b.pop(request("g", 9))
	require.True(t, b.ack(d, queue.AckDead, d.Messages[1])[0].DeadLettered)
	require.Equal(t, 1, b.redrive())
	require.Empty(t, b.pop(request("g", 9)).Messages, "the lease continues")
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages[0], d.Messages[1])[1].Success)
	b.requireRedrives(1)
	require.True(t, b.ack(d, queue.AckRetry, d.Messages[2])[0].LeaseReleased)
	again := b.pop(request("g", 9))
	require.Equal(t, []string{"b"}, transactionIDs(again))
	require.True(t, b.ack(again, queue.AckCompleted, again.Messages...)[0].LeaseReleased)
	require.Equal(t, []string{"c"}, transactionIDs(b.pop(request("g", 9))))
	require.Zero(t, b.stranded())
}

// One call fails a redriven message and completes a message of another partition. The lease of the other partition
// continues.
func TestAFailedRedeliveryEndsNoOtherLease(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a")
	b.deadLetter("a")
	b.redrive()
	b.push("other", "1", "2")
	redriven, log := b.pop(request("g", 9, from("p"))), b.pop(request("g", 9))
	results, err := b.Ack(t.Context(), append(acks(redriven, queue.AckFailed, redriven.Messages...), acks(log, queue.AckCompleted, log.Messages[0])...))
	require.NoError(t, err)
	require.True(t, results[0].LeaseReleased)
	require.False(t, results[1].LeaseReleased)
	require.True(t, b.ack(log, queue.AckCompleted, log.Messages[1])[0].Success)
}

// Redriven messages do not wait for delayedProcessing. Messages of the log wait.
func TestRedrivenMessagesDoNotWaitForDelayedProcessing(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a", "x")
	b.deadLetter("a", "x")
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

func TestAnAutoAckPopSettlesARedelivery(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a", "b", "c")
	b.deadLetter("a", "c")
	b.redrive()
	req := request("g", 1, withAutoAck(true))
	require.Equal(t, []string{"a"}, transactionIDs(b.pop(req)))
	b.requireRedrives(1)
	require.Equal(t, 3, b.committed())
	require.Equal(t, []string{"c"}, transactionIDs(b.pop(req)))
	require.Empty(t, b.pop(req).Messages)
	b.requireRedrives(0)
}

// After a seek backwards, a redriven message may become a dead letter again before its redelivery.
// A second redrive succeeds, and the message is redriven once.
func TestAMessageRedrivenTwiceIsRedeliveredOnce(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	d := b.pop(request("g", 1))
	b.ack(d, queue.AckDead, d.Messages...)
	require.Equal(t, 1, b.redrive())
	b.exec(`SELECT belfry.seek_cursors(ARRAY[partition_id], group_id, '-infinity') FROM belfry.cursor`)
	b.ack(queue.Delivery{Group: "g"}, queue.AckDead, d.Messages...)
	require.Len(t, b.deadLetters(), 1)
	require.Equal(t, 1, b.redrive())
	require.Empty(t, b.deadLetters())
	b.requireRedrives(1)
}

// A seek has moved the cursor before a redriven message. One call acknowledges this message twice,
// without a lease. Both acks complete the message in the log, because acks are judged by the position of
// the cursor before the call.
func TestTwoAcksOfOneCallCompleteTheMessageOfTheLog(t *testing.T) {
	t.Parallel()
	for _, first := range []queue.AckStatus{queue.AckCompleted, queue.AckDead} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			b := newBench(t, "g")
			b.push("p", "m1", "m2")
			d := b.pop(request("g", 100))
			require.True(t, b.ack(d, queue.AckDead, d.Messages...)[0].Success)
			require.Equal(t, 2, b.redrive())
			b.exec(`UPDATE belfry.cursor SET committed = 0`) // has the effect of a seek to the beginning
			acks := append(unfenced(d, first, d.Messages[1]), unfenced(d, queue.AckCompleted, d.Messages[1])...)
			results, err := newStore(t, b.pool, prometheus.NewRegistry(), nil).Ack(t.Context(), acks)
			require.NoError(t, err)
			require.True(t, results[0].Success && results[1].Success)
			b.requireRedrives(2)
			require.Equal(t, 2, b.committed())
		})
	}
}
