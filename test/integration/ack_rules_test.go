package integration_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestAcksOfUnknownMessages covers acks of messages that do not exist. test/model covers all other rules of an ack.
func TestAcksOfUnknownMessages(t *testing.T) {
	t.Parallel()
	g := given(t, start(t), 1, 1, nil)
	other := g.pushIDs(g.queue, "other", "x")[0].PartitionID
	for _, one := range []ackItem{
		{TransactionID: "nobody", PartitionID: g.first.PartitionID},
		{TransactionID: "nobody", PartitionID: g.first.PartitionID, LeaseID: g.first.LeaseID, Status: "failed"},
		{TransactionID: "m1", PartitionID: other},
		{TransactionID: "m1", PartitionID: uuid.NewString()},
		{TransactionID: "m1", PartitionID: "not-a-uuid"},
		{TransactionID: "m1", PartitionID: ""},
		{TransactionID: "", PartitionID: g.first.PartitionID},
		{TransactionID: "m\x001", PartitionID: g.first.PartitionID},
	} {
		answer := g.ack(one)
		require.Equal(t, [][]string{ackedKeys}, keysOfEach(t, answer.Raw))
		got := answer.ok(http.StatusOK)[0]
		require.False(t, got.Success)
		require.Equal(t, "Message not found", got.reason())
		require.Nil(t, got.LeaseReleased)
		require.False(t, got.DLQ)
	}
	require.True(t, g.say(g.first, "completed")[0].released(), "the acks of unknown messages must not change the lease")
}
