package store_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
)

// redriven pushes messages, dead-letters and redrives them, for group g of a queue
// with maxDeliveries.
func (b *bench) redriven(maxDeliveries string, ids ...string) {
	b.t.Helper()
	b.register("g")
	b.push("p", ids...)
	b.bury(ids...)
	b.option("max_deliveries = " + maxDeliveries)
	require.Equal(b.t, len(ids), b.redrive())
}

// A redriven message that kills its consumers is a dead letter again after
// maxDeliveries deliveries since it was put back. The others of its batch are not:
// each has its last delivery for itself.
func TestMaxDeliveriesBoundsRedeliveries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.redriven("2", "a", "fatal", "c")
	require.Equal(t, []string{"a", "fatal", "c"}, transactionIDs(b.pop(request("g", 9))))
	b.crash()
	d := b.pop(request("g", 9))
	require.Equal(t, []string{"a"}, transactionIDs(d), "alone")
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)
	require.Equal(t, []string{"fatal"}, transactionIDs(b.pop(request("g", 9))), "alone")
	b.crash()
	d = b.pop(request("g", 9))
	require.Equal(t, []string{"c"}, transactionIDs(d), "alone")
	require.Equal(t, []string{"fatal: delivered 2 times since it was redriven, without success (maxDeliveries) (3)"}, b.letters())
	require.EqualValues(t, 1, b.counted("belfry_messages_given_up_total"))
	b.requireRedrives(1)
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)

	// Put back once more, it begins anew.
	require.Equal(t, 1, b.redrive())
	b.requireRedrives(1)
	for range 2 {
		require.Equal(t, []string{"fatal"}, transactionIDs(b.pop(request("g", 9))))
		b.crash()
	}
	b.push("p", "d")
	require.Equal(t, []string{"d"}, transactionIDs(b.pop(request("g", 9))), "the log goes on in the same pop")
	require.Len(t, b.letters(), 1)
	b.requireRedrives(0)
}

// What counts is every delivery, but for one that did not reach its client.
func TestWhatCountsAsARedelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.redriven("2", "a")
	for range 3 {
		require.NoError(t, b.Release(t.Context(), b.pop(request("g", 1)).LeaseID))
	}
	for _, status := range []queue.AckStatus{queue.AckRetry, queue.AckFailed} {
		d := b.pop(request("g", 1))
		require.Equal(t, []string{"a"}, transactionIDs(d))
		require.True(t, b.ack(d, status, d.Messages...)[0].LeaseReleased)
		require.Empty(t, b.letters())
	}
	require.Empty(t, b.pop(request("g", 1)).Messages)
	require.Len(t, b.letters(), 1)
	b.requireRedrives(0)
	require.Empty(t, b.pop(request("g", 1)).Messages)
}

// Before the last delivery of one, those before it come together; autoAck settles
// what it delivers and takes none of them apart, but gives up as well.
func TestOnlyTheSuspectIsRedeliveredAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.redriven("3", "a", "b", "c", "d", "e", "f")
	b.exec(`UPDATE belfry.redrive SET deliveries = CASE seq WHEN 2 THEN 3 WHEN 4 THEN 2 ELSE 0 END`)
	d := b.pop(request("g", 9))
	require.Equal(t, []string{"a", "c"}, transactionIDs(d))
	require.Len(t, b.letters(), 1, "b")
	require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)
	d = b.pop(request("g", 9))
	require.Equal(t, []string{"d"}, transactionIDs(d))
	require.NoError(t, b.Release(t.Context(), d.LeaseID))

	req := request("g", 9)
	req.AutoAck = true
	b.exec(`UPDATE belfry.redrive SET deliveries = 3 WHERE seq = 6`)
	require.Equal(t, []string{"d", "e"}, transactionIDs(b.pop(req)))
	require.Len(t, b.letters(), 2, "b and f")
	b.requireRedrives(0)
}

// A redelivery by autoAck that could not be opened is as if it had not been; who
// waits hears that it is back.
func TestTakingBackARedeliveryKeepsItsCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealer, err := seal.New(seal.Config{Key: strings.Repeat("7", 64)})
	require.NoError(t, err)
	keyless := b.Store
	heard := &receiver{}
	keyless.Observe(heard)
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), sealer)
	b.register("g")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	b.push("p", "a", "b")
	b.bury("a", "b")
	b.redrive()
	b.exec(`UPDATE belfry.redrive SET failures = 1, attempts = 4, deliveries = 2, redriven_at = '2026-05-16 12:00:00.123456Z'`)
	req := request("g", 9)
	req.AutoAck = true
	_, err = keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	var same int
	b.scan(`SELECT count(*) FROM belfry.redrive
		WHERE failures = 1 AND attempts = 4 AND deliveries = 2 AND redriven_at = '2026-05-16 12:00:00.123456Z'`, nil, &same)
	require.Equal(t, 2, same)
	b.requireRedrives(2)
	require.Len(t, heard.ready, 1)
	require.LessOrEqual(t, heard.ready[0].In.Seconds(), 0.0)
	require.Equal(t, []string{"a", "b"}, transactionIDs(b.pop(req)))
}
