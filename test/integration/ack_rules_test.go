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
		"unknown messages":                  ackUnknownMessages,
		"a group that never popped":         ackByUnknownGroup,
		"unknown status":                    ackUnknownStatus,
		"a bad item harms no other":         ackBadItem,
		"another lease":                     ackAnotherLease,
		"dead letter in the middle":         ackDeadInTheMiddle,
		"dead letter in another group":      ackDeadInAnotherGroup,
		"retry limit 0":                     ackRetryLimitZero,
		"progress resets the failures":      ackProgressResets,
		"completed and failed in any order": ackAnyOrder,
		"many partitions, independent":      ackManyPartitions,
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

func ackBadItem(t *testing.T, s *server) {
	g := given(t, s, 3, 3, nil)
	items := g.first.ack("completed")
	items[1].TransactionID = "nobody"
	items = append(items, ackItem{TransactionID: "m3", PartitionID: "nonsense"},
		ackItem{TransactionID: "m3", PartitionID: g.first.PartitionID, LeaseID: uuid.NewString()})
	got := g.ackBatch("", items...).ok(http.StatusOK)
	require.Equal(t, []bool{true, false, true, false, false},
		[]bool{got[0].Success, got[1].Success, got[2].Success, got[3].Success, got[4].Success})
	require.Equal(t, "Message not found", got[1].reason())
	require.Equal(t, "Message not found", got[3].reason())
	require.Equal(t, leaseGone, got[4].reason())
	require.True(t, got[2].released())
	g.requireEmpty()
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

func ackDeadInTheMiddle(t *testing.T, s *server) {
	g := given(t, s, 4, 4, nil)
	items := g.first.ack("dlq", 2)
	items[0].Error = "poison"
	got := g.ackBatch("", items...).ok(http.StatusOK)[0]
	require.True(t, got.Success, got.reason())
	require.True(t, got.DLQ)
	require.False(t, got.released(), "the other messages are still leased")
	ids, attempts, reasons := g.deadLetters()
	require.Equal(t, []string{"m3"}, ids)
	require.Equal(t, []int{0}, attempts)
	require.Equal(t, []string{"poison"}, reasons)

	g.say(g.first, "retry", 0)
	again := g.take(9)
	require.Equal(t, []string{"m1", "m2"}, again.ids(), "the messages before it are redelivered")
	require.True(t, g.say(again, "completed", 1)[0].released())
	require.Equal(t, []string{"m4"}, g.take(9).ids())
}

func ackDeadInAnotherGroup(t *testing.T, s *server) {
	g := given(t, s, 2, 2, nil)
	g.say(g.first, "dlq")
	g.requireEmpty()
	require.Equal(t, []string{"m1", "m2"}, g.popIDs(g.queue, "batch=9&consumerGroup=g"), "dead-lettered for one group only")
}

func ackRetryLimitZero(t *testing.T, s *server) {
	g := given(t, s, 2, 2, map[string]any{"retryLimit": 0})
	require.True(t, g.say(g.first, "failed", 0)[0].DLQ)
	g.say(g.first, "retry", 1)
	require.Equal(t, []string{"m2"}, g.take(9).ids())
}

func ackProgressResets(t *testing.T, s *server) {
	g := given(t, s, 2, 2, map[string]any{"retryLimit": 1})
	require.False(t, g.say(g.first, "failed", 0)[0].DLQ)
	d := g.take(2)
	g.say(d, "completed", 0)
	require.False(t, g.say(d, "failed", 1)[0].DLQ, "m2 has not failed before")
	d = g.take(2)
	require.Equal(t, []string{"m2"}, d.ids())
	require.True(t, g.say(d, "failed", 0)[0].DLQ)
	g.requireEmpty()
}

func ackAnyOrder(t *testing.T, s *server) {
	g := given(t, s, 4, 4, nil)
	items := append(g.first.ack("completed", 3, 2), g.first.ack("failed", 1)...)
	items = append(items, g.first.ack("completed", 0)...)
	got := g.ackBatch("", items...).ok(http.StatusOK)
	require.Equal(t, []string{"m4", "m3", "m2", "m1"},
		[]string{got[0].TransactionID, got[1].TransactionID, got[2].TransactionID, got[3].TransactionID})
	require.Equal(t, []bool{false, false, true, true}, []bool{got[0].Success, got[1].Success, got[2].Success, got[3].Success},
		"the order in the partition counts")
	require.Equal(t, []string{"m2", "m3", "m4"}, g.take(9).ids())
}

func ackManyPartitions(t *testing.T, s *server) {
	c := s.client(t)
	queue := t.Name()
	c.pushIDs(queue, "p1", "a1", "a2")
	c.pushIDs(queue, "p2", "b1", "b2")
	d := c.pop(queue, "batch=9&partitions=9").ok(http.StatusOK)
	require.Len(t, d.Messages, 4)
	items := d.ack("completed")
	for i := range items {
		if items[i].TransactionID == "a1" {
			items[i].Status = "failed"
		}
	}
	for _, one := range c.ackBatch("", items...).ok(http.StatusOK) {
		require.Equal(t, one.TransactionID != "a2", one.Success, one.TransactionID)
		require.True(t, one.TransactionID == "a2" || one.released(), one.TransactionID)
	}
	require.Equal(t, []string{"a1", "a2"}, c.popIDs(queue, "batch=9&partitions=9"), "only p1 is redelivered")
}
