package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// remove deletes one message of the only partition.
func (b *bench) remove(transactionID string) {
	b.t.Helper()
	b.exec(`SELECT belfry.delete_message(id, $1) FROM belfry.partition`, transactionID)
}

// A retry delay belongs to the failed message. It ends when that message is deleted. A later
// release of a delivery does not restore it.
func TestDeletingAFailedMessageEndsItsRetryDelay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.option("retry_delay = 600000, retry_backoff = 2, retry_delay_max = 3600000")
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

// The message after a deleted message keeps its own number of attempts. It does not get the number
// of the deleted message.
func TestTheMessageAfterADeletedMessageKeepsItsAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1", "2")
	for range 3 {
		require.Len(t, b.pop(request("g", 1)).Messages, 1)
		b.endLeases()
	}
	require.Len(t, b.pop(request("g", 2)).Messages, 2)
	b.remove("1")
	b.endLeases()
	d := b.pop(request("g", 2))
	require.Equal(t, []string{"2"}, transactionIDs(d))
	require.Equal(t, 2, d.Messages[0].Attempt)
}
