package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// registerForLater registers group g to start in an hour. It pushes message a, dead-letters and redrives it,
// and pushes more messages. Group g gets none of these messages.
func (b *bench) registerForLater(more ...string) {
	b.t.Helper()
	b.register()
	req := request("g", 9)
	req.Subscription = queue.Subscription{Mode: queue.SubscribeFrom, From: time.Now().Add(time.Hour)}
	require.Empty(b.t, b.pop(req).Messages)
	stored := b.push("p", "a")[0]
	results, err := b.Ack(b.t.Context(), []queue.AckItem{
		{TransactionID: "a", PartitionID: stored.PartitionID.String(), Group: "g", Status: queue.AckDead},
	})
	require.NoError(b.t, err)
	require.True(b.t, results[0].DeadLettered)
	require.Equal(b.t, 1, b.redrive())
	b.push("p", more...)
}

// deleteMessage deletes a message as pkg/engine/deadletter does, and wakes the cursors.
func (b *bench) deleteMessage(id string) {
	b.t.Helper()
	b.exec(`SELECT belfry.delete_message((SELECT id FROM belfry.partition), $1)`, id)
	b.wakeAll()
}

func (b *bench) wakeAll() {
	b.t.Helper()
	_, err := b.Heal(b.t.Context())
	require.NoError(b.t, err)
}

// startGroup makes the group start now and requires that it gets the next message.
func (b *bench) startGroup() {
	b.t.Helper()
	b.exec(`UPDATE belfry.cursor SET start_at = clock_timestamp() WHERE start_at IS NOT NULL`)
	b.push("p", "first")
	require.Equal(b.t, []string{"first"}, transactionIDs(b.pop(request("g", 9))))
}

// A group that starts in the future gets its redriven messages. It gets no message from before its
// start, however the redelivery ends.
func TestAGroupGetsNoMessageFromBeforeItsStart(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(b *bench){
		"acknowledged": func(b *bench) {
			d := b.pop(request("g", 9))
			require.Equal(b.t, []string{"a"}, transactionIDs(d))
			require.True(b.t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)
		},
		"acknowledged after its lease": func(b *bench) {
			d := b.pop(request("g", 9))
			b.endLeases()
			d.LeaseID = queue.ID{}
			require.True(b.t, b.ack(d, queue.AckCompleted, d.Messages...)[0].Success)
		},
		"by autoAck": func(b *bench) {
			req := request("g", 9)
			req.AutoAck = true
			require.Equal(b.t, []string{"a"}, transactionIDs(b.pop(req)))
		},
		"given up": func(b *bench) {
			b.option("max_deliveries = 1")
			require.Equal(b.t, []string{"a"}, transactionIDs(b.pop(request("g", 9))))
			b.endLeases()
		},
		"deleted":              func(b *bench) { b.deleteMessage("a") },
		"deleted while leased": func(b *bench) { b.pop(request("g", 9)); b.deleteMessage("a") },
		"its row is missing": func(b *bench) {
			b.exec(`DELETE FROM belfry.message WHERE transaction_id = 'a'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.registerForLater("b", "c")
			settle(b)
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.requireRedrives(0)
			b.push("p", "d")
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.startGroup()
		})
	}
}

// An ack or a deletion of an earlier message, between a push and its wake, makes no earlier message
// ready.
func TestEarlierMessagesStayUnreadyBeforeTheWake(t *testing.T) {
	t.Parallel()
	for name, touch := range map[string]func(b *bench){
		"an ack without a lease": func(b *bench) {
			var partition [16]byte
			b.scan(`SELECT uid FROM belfry.partition`, nil, &partition)
			_, err := b.Ack(b.t.Context(), []queue.AckItem{
				{TransactionID: "b", PartitionID: queue.ID(partition).String(), Group: "g", Status: queue.AckCompleted},
			})
			require.NoError(b.t, err)
		},
		"a deletion": func(b *bench) {
			b.exec(`SELECT belfry.delete_message((SELECT id FROM belfry.partition), 'b')`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.registerForLater("b", "c")
			b.deleteMessage("a")
			// The state between the push and its wake.
			b.exec(`UPDATE belfry.cursor SET committed = 1, ready_at = NULL`)
			touch(b)
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.wakeAll()
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.startGroup()
		})
	}
}
