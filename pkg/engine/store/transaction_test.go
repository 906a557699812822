package store_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// transaction builds a transaction of pushes, acks and required leases.
func transaction(parts ...any) *queue.Transaction {
	tx := &queue.Transaction{}
	for _, part := range parts {
		switch part := part.(type) {
		case queue.PushItem:
			tx.Operations = append(tx.Operations, queue.Operation{Push: &part})
		case []queue.AckItem:
			for i := range part {
				tx.Operations = append(tx.Operations, queue.Operation{Ack: &part[i]})
			}
		case queue.ID:
			tx.RequiredLeases = append(tx.RequiredLeases, part.String())
		case string:
			tx.RequiredLeases = append(tx.RequiredLeases, part)
		}
	}
	return tx
}

// unfenced returns acks without a lease, like the acks that the official clients send in a
// transaction.
func unfenced(d queue.Delivery, status queue.AckStatus, messages ...queue.Message) []queue.AckItem {
	items := acks(d, status, messages...)
	for i := range items {
		items[i].LeaseID = ""
	}
	return items
}

func (b *bench) transact(tx *queue.Transaction) queue.TransactionResult {
	b.t.Helper()
	result, err := b.Transact(b.t.Context(), tx)
	require.NoError(b.t, err)
	require.Len(b.t, result.Operations, len(tx.Operations))
	return result
}

func (b *bench) applied(tx *queue.Transaction) queue.TransactionResult {
	b.t.Helper()
	result := b.transact(tx)
	require.True(b.t, result.Applied, result.Error)
	require.Empty(b.t, result.Error)
	return result
}

func TestATransactionMovesMessages(t *testing.T) {
	b := newBench(t)
	b.push("p", "1", "2", "3")
	d := b.pop(request("g", 2))
	result := b.applied(transaction(item("next", "a"), unfenced(d, queue.AckCompleted, d.Messages...), item("p", "4"), item("next", ""), d.LeaseID, ""))
	for i, place := range []string{"next", "", "", "p", "next"} {
		op := result.Operations[i]
		require.Empty(t, op.Error)
		if place == "" {
			require.True(t, op.Ack.Success)
			require.True(t, op.Ack.LeaseReleased, "operation %d: the acks of a transaction are judged together", i)
			continue
		}
		require.NotEmpty(t, op.Push.TransactionID)
		var seen string
		b.scan(`SELECT p.name FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
			WHERE m.id = $1 AND p.uid = $2 AND m.transaction_id = $3`,
			[]any{[16]byte(op.Push.MessageID), [16]byte(op.Push.PartitionID), op.Push.TransactionID}, &seen)
		require.Equal(t, place, seen)
	}
	req := request("g", 10, across(2))
	got := b.pop(req)
	require.ElementsMatch(t, []string{"3", "4", "a", result.Operations[4].Push.TransactionID}, transactionIDs(got))
	require.Zero(t, b.stranded())
}

// Every ack status has the same effect in a transaction as in an ack.
func TestAckStatusesActAlikeInTransactions(t *testing.T) {
	b := newBench(t)
	ackOne := func(d queue.Delivery, status queue.AckStatus) queue.AckResult {
		result := b.applied(transaction(item("out", ""), unfenced(d, status, d.Messages[0]), d.LeaseID))
		return *result.Operations[1].Ack
	}
	named := func() queue.Delivery {
		req := request("g", 1, from("p"))
		return b.pop(req)
	}
	b.push("p", "1", "2", "3")
	for range enginetest.AtOnce().RetryLimit {
		failed := ackOne(named(), queue.AckFailed)
		require.False(t, failed.DeadLettered)
		require.True(t, failed.LeaseReleased)
		require.True(t, ackOne(named(), queue.AckRetry).LeaseReleased, "a retry counts no failure")
	}
	require.True(t, ackOne(named(), queue.AckFailed).DeadLettered, "the retries are exhausted")
	d := named()
	require.Equal(t, []string{"2"}, transactionIDs(d))
	require.True(t, ackOne(d, queue.AckDead).DeadLettered)
	d = named()
	require.Equal(t, []string{"3"}, transactionIDs(d))
	require.False(t, ackOne(d, queue.AckCompleted).DeadLettered)
	require.Empty(t, named().Messages)
	var parked []string
	b.scan(`SELECT array_agg(m.transaction_id ORDER BY m.seq) FROM belfry.dead_letter d
		JOIN belfry.message m ON m.partition_id = d.partition_id AND m.seq = d.seq`, nil, &parked)
	require.Equal(t, []string{"1", "2"}, parked)
}

// A transaction that cannot be applied as a whole changes nothing and returns the reason.
func TestARefusedTransactionChangesNothing(t *testing.T) {
	b := newBench(t)
	pushed := b.push("p", "1", "2", "3", "4")
	b.push("taken", "x")
	req := request("g", 3, from("p"))
	d := b.pop(req)
	req.Partition, req.Batch = ptr("taken"), 1
	other := b.pop(req)
	done := func(places ...int) []queue.AckItem {
		var messages []queue.Message
		for _, place := range places {
			messages = append(messages, d.Messages[place])
		}
		return unfenced(d, queue.AckCompleted, messages...)
	}
	edited := func(edit func(*queue.AckItem)) []queue.AckItem {
		changed := done(0)
		edit(&changed[0])
		return changed
	}
	const lease = "Invalid or expired lease"
	nobody := uuid.NewString()
	snapshot := func() (state string) {
		b.scan(`SELECT (SELECT json_agg(c ORDER BY c.partition_id)::text FROM belfry.cursor c)
			|| (SELECT json_agg(p ORDER BY p.id)::text FROM belfry.partition p WHERE p.name IN ('p', 'taken'))
			|| (SELECT count(*) FROM belfry.message) || ' ' || (SELECT count(*) FROM belfry.dead_letter)
			|| ' ' || (SELECT count(*) FROM belfry.queue) || ' ' || (SELECT count(*) FROM belfry.partition)`, nil, &state)
		return state
	}
	before := snapshot()
	unborn := item("p", "6")
	unborn.Queue = "unborn"
	for name, c := range map[string]struct {
		tx   *queue.Transaction
		at   int // the index of the operation with the error, or -1
		want string
	}{
		"unknown message": {
			transaction(item("p", "5"), done(0), edited(func(a *queue.AckItem) { a.TransactionID = "nobody" })), 2,
			"ACK operation failed: Message not found",
		},
		"unknown partition": {transaction(edited(func(a *queue.AckItem) { a.PartitionID = nobody }), item("p", "5")), 0,
			"ACK operation failed: Message not found"},
		"unknown status": {transaction(item("p", "5"), edited(func(a *queue.AckItem) { a.Status = queue.AckUnknown })), 1,
			"ACK operation failed: Unknown status: use completed, success, failed, retry or dlq"},
		"another group": {transaction(item("p", "5"), edited(func(a *queue.AckItem) { a.Group = "other" })), 1,
			"ACK operation failed: The consumer group has not popped from this partition"},
		"an unknown lease of the ack": {transaction(item("p", "5"), done(0), edited(func(a *queue.AckItem) { a.LeaseID = nobody })), 2,
			"ACK operation failed: " + lease},
		"an unknown required lease": {transaction(item("p", "5"), done(0), d.LeaseID, nobody), -1,
			lease + `: "` + nobody + `" of requiredLeases is not live`},
		"a required lease that is not an id": {transaction(item("p", "5"), "L1"), -1, lease + `: "L1" of requiredLeases is not live`},
		"the lease of another partition": {transaction(item("p", "5"), done(0), other.LeaseID), 1,
			"ACK operation failed: Invalid or expired lease: none of requiredLeases is the group's live lease on this partition"},
		"a duplicate": {transaction(done(0, 1, 2), item("new", "5"), item("p", "4"), d.LeaseID), 4,
			`PUSH operation failed: Duplicate transactionId "4" in queue "q", partition "p"`},
		"a duplicate within the transaction": {transaction(item("p", "5"), done(0), item("p", "5")), 2,
			`PUSH operation failed: Duplicate transactionId "5" in queue "q", partition "p"`},
		"completed after a failed message": {
			transaction(unfenced(d, queue.AckFailed, d.Messages[0]), done(1), item("p", "5")), 1,
			"ACK operation failed: Not applied: an earlier message of this partition failed in the same call, so this one is redelivered with it",
		},
		"an ack before its push": {
			transaction([]queue.AckItem{{TransactionID: "5", PartitionID: pushed[0].PartitionID.String(), Group: "g", Status: queue.AckCompleted}}, item("p", "5")), 0,
			"ACK operation failed: Message not found",
		},
		"dead letters": {transaction(unfenced(d, queue.AckDead, d.Messages...), item("p", "1")), 3,
			`PUSH operation failed: Duplicate transactionId "1" in queue "q", partition "p"`},
	} {
		c.tx.Operations = append(c.tx.Operations, queue.Operation{Push: &unborn})
		result := b.transact(c.tx)
		require.False(t, result.Applied, name)
		require.Equal(t, c.want, result.Error, name)
		for i, op := range result.Operations {
			require.Equal(t, i == c.at, op.Error != "", "%s: operation %d", name, i)
		}
		require.Equal(t, before, snapshot(), name)
	}
	bad := item("p", "5")
	bad.Payload = []byte("{")
	_, err := b.Transact(t.Context(), transaction(done(0, 1, 2), bad, unborn))
	require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), "a value that the database refuses is an error: %v", err)
	require.Equal(t, before, snapshot())
	require.True(t, b.applied(transaction(done(0, 1, 2), item("p", "5"), d.LeaseID)).Operations[2].Ack.LeaseReleased)
}

// A required lease of several partitions covers acks only in the partitions that it still holds.
func TestARequiredLeaseCoversThePartitionsItStillHolds(t *testing.T) {
	b := newBench(t)
	b.push("p1", "1")
	b.push("p2", "2")
	req := request("g", 2, across(2))
	d := b.pop(req)
	require.Len(t, d.Messages, 2)
	b.exec(`UPDATE belfry.cursor SET lease_until = now() - interval '1 second', ready_at = now()
		WHERE partition_id = (SELECT id FROM belfry.partition WHERE name = $1)`, d.Messages[0].Partition.Name)
	lost := b.transact(transaction(unfenced(d, queue.AckCompleted, d.Messages...), item("out", "a"), d.LeaseID))
	require.False(t, lost.Applied)
	require.NotEmpty(t, lost.Operations[0].Error)
	require.Empty(t, lost.Operations[1].Error)
	b.applied(transaction(item("out", "b"), d.LeaseID)) // without an ack, the lease only has to be live in some partition
	b.applied(transaction(unfenced(d, queue.AckCompleted, d.Messages[1]), item("out", "a"), d.LeaseID))
	gone := b.transact(transaction(item("out", "c"), d.LeaseID))
	require.Equal(t, fmt.Sprintf("Invalid or expired lease: %q of requiredLeases is not live", d.LeaseID), gone.Error)
}

// A message may be acknowledged by the transaction that stores it.
func TestATransactionMayAcknowledgeItsOwnPush(t *testing.T) {
	b := newBench(t)
	id := b.push("p", "1")[0].PartitionID.String()
	d := b.pop(request("g", 1))
	b.ack(d, queue.AckCompleted, d.Messages...)
	b.applied(transaction(item("p", "2"), item("p", "3"),
		[]queue.AckItem{{TransactionID: "2", PartitionID: id, Group: "g", Status: queue.AckCompleted}}))
	require.Equal(t, []string{"3"}, transactionIDs(b.pop(request("g", 5))))
}

// A transaction has thousands of pushes and acks.
func TestALargeTransactionIsApplied(t *testing.T) {
	b := newBench(t)
	items := make([]queue.PushItem, 6000)
	for i := range items {
		items[i] = item("p", fmt.Sprint(i))
	}
	_, err := b.Push(t.Context(), items)
	require.NoError(t, err)
	d := b.pop(request("g", len(items)))
	require.Len(t, d.Messages, len(items))
	tx := transaction(unfenced(d, queue.AckCompleted, d.Messages...))
	for i := range items {
		tx.Operations = append(tx.Operations, queue.Operation{Push: &queue.PushItem{
			Queue: "q", Partition: fmt.Sprint("to", i%100), TransactionID: fmt.Sprint(i), Payload: []byte(`{}`),
		}})
		tx.RequiredLeases = append(tx.RequiredLeases, d.LeaseID.String())
	}
	b.applied(tx)
	require.Equal(t, 2*len(items), b.count(`SELECT count(*) FROM belfry.message`))
	require.Zero(t, b.stranded())
}
