package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// remove deletes a message of the only partition by itself.
func (b *bench) remove(transactionID string) {
	b.t.Helper()
	b.exec(`SELECT belfry.delete_message(id, $1) FROM belfry.partition`, transactionID)
}

// The rest after a failure is that of the message that failed: it ends when that
// one is deleted, also for a delivery that is given back later.
func TestADeletedMessageTakesItsRestAlong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.option("retry_backoff_ms = 600000")
	b.push("p", "1", "2")
	d := b.pop(request("g", 1))
	b.ack(d, queue.AckFailed, d.Messages...)
	b.remove("1")
	for range 2 {
		d = b.pop(request("g", 1))
		require.Equal(t, []string{"2"}, transactionIDs(d))
		require.NoError(t, b.Release(t.Context(), d.LeaseID))
	}
}

// What follows a deleted message was delivered as often as it was, not as often
// as the deleted one.
func TestADeletedMessageTakesItsAttemptsAlong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1", "2")
	for range 3 {
		require.Len(t, b.pop(request("g", 1)).Messages, 1)
		b.crash()
	}
	require.Len(t, b.pop(request("g", 2)).Messages, 2)
	b.remove("1")
	b.crash()
	d := b.pop(request("g", 2))
	require.Equal(t, []string{"2"}, transactionIDs(d))
	require.Equal(t, 2, d.Messages[0].Attempt)
}

// A queue that is told to rest no more does not rest, also where a delivery is
// given back.
func TestARestIsForgottenWithItsOption(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.option("retry_backoff_ms = 600000")
	b.push("p", "1")
	d := b.pop(request("g", 1))
	b.ack(d, queue.AckFailed, d.Messages...)
	b.option("retry_backoff_ms = 0")
	b.rearm()
	for range 2 {
		d = b.pop(request("g", 1))
		require.Len(t, d.Messages, 1)
		require.NoError(t, b.Release(t.Context(), d.LeaseID))
	}
}

// After a seek backwards a message that was put back may be buried again before it
// is redelivered. Putting it back once more is no failure, and it is there once.
func TestAMessageIsPutBackTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1")
	d := b.pop(request("g", 1))
	b.ack(d, queue.AckDead, d.Messages...)
	require.Equal(t, 1, b.redrive())
	b.exec(`SELECT belfry.seek_cursors(ARRAY[partition_id], group_id, '-infinity') FROM belfry.cursor`)
	b.ack(queue.Delivery{Group: "g"}, queue.AckDead, d.Messages...)
	require.Len(t, b.letters(), 1)
	require.Equal(t, 1, b.redrive())
	require.Empty(t, b.letters())
	b.requireRedrives(1)
}
