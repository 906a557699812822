package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// A consumer over HTTP whose lease was over acknowledges what a consumer in SQL
// works on. It is refused, and the acks of others do not wait until its time is up.
func TestALateAckDoesNotHoldUpStrangers(t *testing.T) {
	t.Parallel()
	b := oneByOne(t)
	b.register("g")
	b.push("p", "1")
	late := b.pop(request("g", 1))
	b.crash()
	tx := b.begin(b.connect())
	popped := b.sqlPop(tx, "g", 1, 1)
	require.Len(t, popped, 1)
	b.push("other", "2", "3", "4")
	stranger := b.pop(request("g", 3))
	require.Len(t, stranger.Messages, 3)

	refused := make(chan error, 1)
	go func() {
		_, err := b.Ack(t.Context(), acks(late, queue.AckCompleted, late.Messages...))
		refused <- err
	}()
	awaitLockWait(t, b)
	require.True(t, b.ack(stranger, queue.AckCompleted, stranger.Messages[0])[0].Success)
	err := <-refused
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.ErrorContains(t, err, "a consumer in SQL holds the partition")

	// Those that meet the late one in a flush go on as well.
	outcomes := make(chan error, 2)
	release := b.hold(`SELECT 1 FROM belfry.cursor WHERE partition_id <> (SELECT id FROM belfry.partition WHERE name = 'p') FOR UPDATE`)
	first := make(chan bool, 1)
	go func() { first <- b.ack(stranger, queue.AckCompleted, stranger.Messages[1])[0].Success }()
	awaitLockWait(t, b)
	for i, d := range []queue.Delivery{late, stranger} {
		go func() {
			_, err := b.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages[len(d.Messages)-1]))
			outcomes <- err
		}()
		b.awaitQueued("ack", i+1)
	}
	release()
	require.True(t, <-first)
	failed := 0
	for range 2 {
		if err := <-outcomes; err != nil {
			require.ErrorContains(t, err, "a consumer in SQL holds the partition")
			failed++
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, 1, b.sqlAck(tx, popped[0].Lease, nil, "completed"))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 4, b.consumed())
}

// consumed is how many messages all groups have done.
func (b *bench) consumed() (n int) {
	b.t.Helper()
	b.scan(`SELECT coalesce(sum(consumed), 0) FROM belfry.cursor`, nil, &n)
	return n
}
