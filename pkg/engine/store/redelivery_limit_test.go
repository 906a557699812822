package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// redriven pushes messages, makes them dead letters of group g, and redrives them. The queue has
// the given maxDeliveries.
func (b *bench) redriven(maxDeliveries string, ids ...string) {
	b.t.Helper()
	b.register("g")
	b.push("p", ids...)
	b.deadLetter(ids...)
	b.option("max_deliveries = " + maxDeliveries)
	require.Equal(b.t, len(ids), b.redrive())
}

// A redriven message that crashes its consumers becomes a dead letter again after maxDeliveries
// deliveries since the redrive. The other messages of its batch do not become dead letters, because
// each message is alone in its last delivery.
func TestMaxDeliveriesLimitsRedeliveries(t *testing.T) {
	b := newBench(t)
	b.redriven("2", "a", "fatal", "c")
	require.Equal(t, []string{"a", "fatal", "c"}, transactionIDs(b.pop(request("g", 9))))
	b.endLeases()
	d := b.pop(request("g", 9))
	require.Equal(t, []string{"a"}, transactionIDs(d), "alone")
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)
	require.Equal(t, []string{"fatal"}, transactionIDs(b.pop(request("g", 9))), "alone")
	b.endLeases()
	d = b.pop(request("g", 9))
	require.Equal(t, []string{"c"}, transactionIDs(d), "alone")
	require.Equal(t, []string{"fatal: delivered 2 times since it was redriven, without success (maxDeliveries) (3)"}, b.deadLetters())
	require.EqualValues(t, 1, enginetest.Metric(t, b.reg, "belfry_messages_given_up_total"))
	b.requireRedrives(1)
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)

	// A second redrive resets the count.
	require.Equal(t, 1, b.redrive())
	b.requireRedrives(1)
	for range 2 {
		require.Equal(t, []string{"fatal"}, transactionIDs(b.pop(request("g", 9))))
		b.endLeases()
	}
	b.push("p", "d")
	require.Equal(t, []string{"d"}, transactionIDs(b.pop(request("g", 9))), "the same pop continues with the log")
	require.Len(t, b.deadLetters(), 1)
	b.requireRedrives(0)
}

// Every redelivery counts, except a released redelivery.
func TestAReleasedRedeliveryDoesNotCount(t *testing.T) {
	b := newBench(t)
	b.redriven("2", "a")
	for range 3 {
		require.NoError(t, b.Release(t.Context(), b.pop(request("g", 1)).LeaseID))
	}
	for _, status := range []queue.AckStatus{queue.AckRetry, queue.AckFailed} {
		d := b.pop(request("g", 1))
		require.Equal(t, []string{"a"}, transactionIDs(d))
		require.True(t, b.ack(d, status, d.Messages...)[0].LeaseReleased)
		require.Empty(t, b.deadLetters())
	}
	require.Empty(t, b.pop(request("g", 1)).Messages)
	require.Len(t, b.deadLetters(), 1)
	b.requireRedrives(0)
	require.Empty(t, b.pop(request("g", 1)).Messages)
}

// Only a message at its last delivery is redelivered alone. The messages before it are redelivered
// together. An autoAck pop delivers all together, but also makes messages beyond maxDeliveries dead
// letters.
func TestOnlyAMessageAtItsLastDeliveryIsRedeliveredAlone(t *testing.T) {
	b := newBench(t)
	b.redriven("3", "a", "b", "c", "d", "e", "f")
	b.exec(`UPDATE belfry.redrive SET deliveries = CASE seq WHEN 2 THEN 3 WHEN 4 THEN 2 ELSE 0 END`)
	d := b.pop(request("g", 9))
	require.Equal(t, []string{"a", "c"}, transactionIDs(d))
	require.Len(t, b.deadLetters(), 1, "b")
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)
	d = b.pop(request("g", 9))
	require.Equal(t, []string{"d"}, transactionIDs(d))
	require.NoError(t, b.Release(t.Context(), d.LeaseID))

	req := request("g", 9, withAutoAck(true))
	b.exec(`UPDATE belfry.redrive SET deliveries = 3 WHERE seq = 6`)
	require.Equal(t, []string{"d", "e"}, transactionIDs(b.pop(req)))
	require.Len(t, b.deadLetters(), 2, "b and f are dead letters")
	b.requireRedrives(0)
}

// The store undoes an autoAck redelivery that it cannot decrypt. All counts stay unchanged, and the
// store announces the time at which the cursor is ready.
func TestTakingBackARedeliveryKeepsItsCounts(t *testing.T) {
	b := newBench(t, "g")
	keyless := b.sealing()
	heard := &receiver{}
	keyless.Observe(heard)
	b.push("p", "a", "b")
	b.deadLetter("a", "b")
	b.redrive()
	b.exec(`UPDATE belfry.redrive SET failures = 1, attempts = 4, deliveries = 2, redriven_at = '2026-05-16 12:00:00.123456Z'`)
	req := request("g", 9, withAutoAck(true))
	_, err := keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	require.Equal(t, 2, b.count(`SELECT count(*) FROM belfry.redrive
		WHERE failures = 1 AND attempts = 4 AND deliveries = 2 AND redriven_at = '2026-05-16 12:00:00.123456Z'`))
	b.requireRedrives(2)
	require.Len(t, heard.ready, 1)
	require.InDelta(t, time.Minute, heard.ready[0].In, float64(10*time.Second))
	b.retryNow()
	require.Equal(t, []string{"a", "b"}, transactionIDs(b.pop(req)))
}

// A redriven message that cannot be decrypted fails only one pop per minute, although pushes wake its
// partition.
func TestARedrivenMessageThatCannotBeOpenedWaitsForItsRetry(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprint("autoAck ", autoAck), func(t *testing.T) {
			b := newBench(t, "g")
			keyless := b.sealing()
			b.push("p", "a", "b")
			b.deadLetter("a")
			b.redrive()
			req := request("g", 9, withAutoAck(autoAck))
			_, err := keyless.Pop(t.Context(), req)
			require.ErrorIs(t, err, seal.ErrNoKey)
			b.push("p", "c")
			d, err := keyless.Pop(t.Context(), req)
			require.NoError(t, err)
			require.InDelta(t, time.Minute, d.NextIn, float64(10*time.Second))
			b.requireRedrives(1)
			b.retryNow()
			require.Equal(t, []string{"a"}, transactionIDs(b.pop(req)))
		})
	}
}
