package integration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestAckRules(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, s *server){
		"unknown messages":          ackUnknownMessages,
		"a group that never popped": ackByUnknownGroup,
		"unknown status":            ackUnknownStatus,
		"another lease":             ackAnotherLease,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s)
		})
	}
}

func ackUnknownMessages(t *testing.T, s *server) {
	g := given(t, s, 1, 1, nil)
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
	require.True(t, g.say(g.first, "completed")[0].released(), "nothing changed")
}

// A success would claim an effect that did not happen, and a dead letter would appear for a group that does not exist.
func ackByUnknownGroup(t *testing.T, s *server) {
	g := given(t, s, 2, 1, nil)
	for _, status := range []string{"completed", "failed", "dlq", "retry"} {
		items := g.first.ack(status)
		items[0].LeaseID = ""
		got := g.ackBatch("stranger", items...).ok(http.StatusOK)[0]
		require.False(t, got.Success, status)
		require.Equal(t, "The consumer group has not popped from this partition", got.reason(), status)
		require.Nil(t, got.LeaseReleased, status)
		require.False(t, got.DLQ, status)
	}
	ids, _, _ := g.deadLetters()
	require.Empty(t, ids)
	require.Equal(t, []string{"m1", "m2"}, g.popIDs(g.queue, "batch=9&consumerGroup=stranger"), "the group starts at the beginning")
}

func ackUnknownStatus(t *testing.T, s *server) {
	g := given(t, s, 2, 2, nil)
	for _, status := range []string{"done", "Completed", "COMPLETED", " completed", "nack"} {
		got := g.loose().ackBatch("", g.first.ack(status)...).ok(http.StatusOK)
		for _, one := range got {
			require.False(t, one.Success, status)
			require.Nil(t, one.Error, status)
			require.False(t, one.DLQ, status)
		}
	}
	g.requireEmpty()
	odd := ask[[]acked](g.loose(), post(ackPath,
		`{"transactionId":"m1","partitionId":"`+g.first.PartitionID+`","status":7}`)).ok(http.StatusOK)[0]
	require.True(t, odd.Success, "a status that is not a string means completed")
	g.say(g.first, "retry", 1)
	require.Equal(t, []string{"m2"}, g.take(5).ids())
}

func ackAnotherLease(t *testing.T, s *server) {
	g := given(t, s, 2, 2, nil)
	for _, lease := range []string{uuid.NewString(), "nonsense", g.first.LeaseID + "0"} {
		items := g.first.ack("completed")
		for i := range items {
			items[i].LeaseID = lease
		}
		for _, one := range g.ackBatch("", items...).ok(http.StatusOK) {
			require.Equal(t, leaseGone, one.reason(), lease)
		}
	}
	items := g.first.ack("completed")
	for i := range items {
		items[i].LeaseID = strings.ToUpper(g.first.LeaseID)
	}
	require.True(t, g.ackBatch("", items...).ok(http.StatusOK)[1].released(), "ids are not case-sensitive")
}
