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
	Schedule                 string
	Headers                  map[string]string
	ConsumedAt               *time.Time
	Attempts                 *struct {
		Deliveries, Failures             int
		LeasedUntil, RetryAt, RedrivenAt *time.Time
	}
}

func (c client) why(query string) explanation {
	c.t.Helper()
	return ask[explanation](c, get("/api/v1/explain?queue=q"+query)).ok(http.StatusOK)
}

// The explanation must follow a message from its push to its ack. pkg/insight/explain tests each code. test/model compares
// the codes with pops.
func TestExplainFollowsAMessage(t *testing.T) {
	t.Parallel()
	c := start(t, proven).client(t)
	ask[any](c.loose(), get("/api/v1/explain")).refused("queue is required")
	require.Equal(t, "no_queue", c.why("&transactionId=m").Code)

	waiting := c.begin(popPartitionCall("q", "Default", "wait=true&timeout=60000&consumerGroup=g"))
	c.untilWaiting(1)
	c.send1(post("/api/v1/configure", `{"queue":"q","options":{"delayedProcessing":3600}}`))
	c.pushIDs("q", "", "m", "n")
	var found explanation
	until(t, "the waiting request has created its group", func() bool {
		found = c.why("&consumerGroup=g&transactionId=n")
		return found.Code != "no_group"
	})
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

// The explanation must show what is stored about the attempts of one message: deliveries, failures, lease, retry delay and
// redrive.
func TestExplainShowsTheAttemptsOfAMessage(t *testing.T) {
	t.Parallel()
	c := start(t, proven).client(t)
	c.configure("q", map[string]any{"retryDelay": 60_000, "retryLimit": 2}).ok(http.StatusOK)
	c.pushIDs("q", "", "a", "b", "c")
	why := func(id string) explanation { return c.why("&consumerGroup=g&transactionId=" + id) }
	require.Nil(t, why("a").Attempts)
	got := c.pop("q", "batch=2&consumerGroup=g&subscriptionMode=all").ok(http.StatusOK)
	for _, id := range []string{"a", "b"} {
		found := why(id).Attempts
		require.NotNil(t, found, id)
		require.Equal(t, []int{1, 0}, []int{found.Deliveries, found.Failures}, id)
		require.NotNil(t, found.LeasedUntil, id)
	}
	require.Nil(t, why("c").Attempts)
	require.Nil(t, why("c").ConsumedAt)
	c.ackBatch("g", got.ack("failed")[:1]...).ok(http.StatusOK)
	found := why("a").Attempts
	require.Equal(t, []int{1, 1}, []int{found.Deliveries, found.Failures})
	require.Nil(t, found.LeasedUntil)
	require.NotNil(t, found.RetryAt)
	require.Nil(t, why("b").Attempts, "the attempts of b must no longer be stored after the failed ack of a")

	c.exec(`UPDATE belfry.cursor SET retry_at = NULL, ready_at = now()`)
	got = c.pop("q", "batch=1&consumerGroup=g").ok(http.StatusOK)
	c.ackBatch("g", got.ack("dlq")...).ok(http.StatusOK)
	require.Nil(t, why("a").Attempts)
	require.NotNil(t, why("c").ConsumedAt)
	c.redriveAll("q", "g")
	found = why("a").Attempts
	require.NotNil(t, found.RedrivenAt)
	require.GreaterOrEqual(t, found.Deliveries, 2)
	got = c.pop("q", "batch=1&consumerGroup=g").ok(http.StatusOK)
	require.Equal(t, []string{"a"}, got.ids())
	require.NotNil(t, why("a").Attempts.LeasedUntil)
	c.ackBatch("g", got.ack("completed")...).ok(http.StatusOK)
	require.Nil(t, why("a").Attempts)
	require.Equal(t, "acknowledged", why("a").Code)
}

// The explanation of an empty partition must name the schedule that stores its next message. The explanation of a message must
// have its headers.
func TestExplainNamesTheNextScheduleAndTheHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	c := s.client(t)
	execute(t, producer(t, s.dsn), `SELECT belfry.schedule('once', 'q', '{}', at => '2100-01-02T03:04:05Z', headers => '{"Tenant": "acme"}')`)
	var found explanation
	until(t, "the server has computed the next instant", func() bool {
		found = c.why("&consumerGroup=g")
		return found.Schedule != ""
	})
	require.Equal(t, []string{"no_queue", "once"}, []string{found.Code, found.Schedule})
	require.Contains(t, found.Sentence, `The next message of the schedule "once" comes at 2100-01-02T03:04:05.000Z.`)
	require.Equal(t, "2100-01-02T03:04:05Z", found.NextChangeAt.Format(time.RFC3339))

	c.send1(post("/api/v1/push", `{"items":[{"queue":"q","transactionId":"m","headers":{"Tenant":"acme"},"payload":1}]}`))
	require.Equal(t, map[string]string{"tenant": "acme"}, c.why("&consumerGroup=g&transactionId=m").Headers)
	require.Nil(t, c.why("&consumerGroup=g").Headers)
}
