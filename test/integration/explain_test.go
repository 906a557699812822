package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type explanation struct {
	Code, Sentence           string
	NextChangeAt, Timestamp  time.Time
	NextTransactionID        string
	Lag, Ahead, Waiting      int
	Partition, ConsumerGroup string
}

func (c client) why(query string) explanation {
	c.t.Helper()
	return ask[explanation](c, get("/api/v1/explain?queue=q"+query)).ok(http.StatusOK)
}

// The answer follows a message from its push to its ack. pkg/explain tests each code, and test/model compares them with
// pops.
func TestExplainFollowsAMessage(t *testing.T) {
	t.Parallel()
	c := start(t, proven).client(t)
	ask[any](c.loose(), get("/api/v1/explain")).refused("queue is required")
	require.Equal(t, "no_queue", c.why("&transactionId=m").Code)

	waiting := c.begin(popPartitionCall("q", "Default", "wait=true&timeout=60000&consumerGroup=g"))
	c.untilWaiting(1)
	c.send1(post("/api/v1/configure", `{"queue":"q","options":{"delayedProcessing":3600}}`))
	c.pushIDs("q", "", "m", "n")
	found := c.why("&consumerGroup=g&transactionId=n")
	require.Equal(t, "delayed", found.Code)
	require.InDelta(t, time.Hour.Seconds(), found.NextChangeAt.Sub(found.Timestamp).Seconds(), 60)
	require.Equal(t, explanation{
		Code: found.Code, Sentence: found.Sentence, NextChangeAt: found.NextChangeAt, Timestamp: found.Timestamp,
		NextTransactionID: "m", Lag: 2, Ahead: 1, Waiting: 1, Partition: "Default", ConsumerGroup: "g",
	}, found)

	options(c, "q", "delayedProcessing", 0)
	got := waiting.delivery().ok(http.StatusOK)
	require.Equal(t, "leased", c.why("&consumerGroup=g&transactionId=m").Code)
	require.Equal(t, "leased", c.why("&consumerGroup=g").Code)
	c.switchTo(maintenancePath+"/pop", "true")
	c.ackBatch("g", got.ack("completed")...).ok(http.StatusOK)
	require.Equal(t, "pop_maintenance", c.why("&consumerGroup=g").Code)
	require.Equal(t, "acknowledged", c.why("&consumerGroup=g&transactionId=m").Code)
	c.switchTo(maintenancePath+"/pop", "false")
	require.Equal(t, "no_waiter", c.why("&consumerGroup=g").Code)
	require.Equal(t, "not_stored", c.why("&consumerGroup=g&transactionId=x").Code)
	require.Equal(t, "no_group", c.why("").Code)
}
