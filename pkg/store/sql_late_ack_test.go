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

	refused := b.beginAck(acks(late, queue.AckCompleted, late.Messages...))
	awaitLockWait(t, b)
	b.requireAcked(<-b.beginAck(acks(stranger, queue.AckCompleted, stranger.Messages...)))
	b.requireHeld(<-refused)
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
