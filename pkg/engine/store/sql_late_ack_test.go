package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// The lease of an HTTP consumer has ended, and a SQL consumer has the message now. The ack of the
// HTTP consumer waits for the cursor and is then refused. Acks of other cursors do not wait.
func TestALateAckDoesNotDelayOtherAcks(t *testing.T) {
	t.Parallel()
	b := oneByOne(t)
	b.register("g")
	b.push("p", "1")
	late := b.pop(request("g", 1))
	b.endLeases()
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

// consumed returns how many messages all groups have consumed.
func (b *bench) consumed() (n int) {
	b.t.Helper()
	b.scan(`SELECT coalesce(sum(consumed), 0) FROM belfry.cursor`, nil, &n)
	return n
}
