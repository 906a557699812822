package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// An autoscaler must see messages that wait for a consumer or are in delivery. It must not see finished and delayed ones.
func TestScaleFollowsTheWorkOfAGroup(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, ctx := s.client(t), t.Context()
	scale := func(queueName, group string) api.Scale {
		t.Helper()
		return ask[api.Scale](c, get("/api/v1/scale/"+queueName+"/"+group+"?fresh=true")).ok(http.StatusOK)
	}
	require.Equal(t, http.StatusNotFound, ask[any](c, get("/api/v1/scale/jobs/workers")).Status)

	c.pushIDs("jobs", "a", "1", "2", "3")
	c.pushIDs("jobs", "b", "4")
	require.EqualValues(t, 4, scale("jobs", "workers").Pending, "the group does not exist, and its first consumer must be started")
	c.elapse("jobs", 90e9)
	require.GreaterOrEqual(t, scale("jobs", "workers").LagSeconds, int64(90))

	leased := c.pop("jobs", "consumerGroup=workers").ok(http.StatusOK) // one message
	require.EqualValues(t, 4, scale("jobs", "workers").Pending, "messages in delivery keep their consumer")
	c.ackBatch("workers", leased.ack("completed")...).ok(http.StatusOK)
	work := scale("jobs", "workers")
	require.EqualValues(t, 3, work.Pending)
	require.GreaterOrEqual(t, work.LagSeconds, int64(90))
	got, err := goClient(t, s).Scale(ctx, "jobs", "workers")
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Pending)

	for range 3 {
		c.ackBatch("workers", c.pop("jobs", "consumerGroup=workers").ok(http.StatusOK).ack("completed")...).ok(http.StatusOK)
	}
	require.Equal(t, api.Scale{}, scale("jobs", "workers"))
	c.send1(post("/api/v1/push", `{"items":[{"queue":"jobs","partition":"c","payload":1,"delaySeconds":3600}]}`))
	require.Equal(t, api.Scale{}, scale("jobs", "workers"), "no consumer can receive the message for an hour")
	c.pushIDs("jobs", "d", "5")
	require.NotZero(t, scale("jobs", "workers").Pending)
}
