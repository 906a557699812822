package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// With onExhausted block, a partition stops at a message without a retry left. Each action of an operator lets it go on.
func TestABlockedPartitionWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, conn := s.client(t), producer(t, s.dsn)
	c.configure("q", map[string]any{"retryLimit": 0})
	c.setLimits(limitsOf("g"), `{"onExhausted":"block"}`)
	of := groupsPath + "/g/queues/q"
	for action, next := range map[string]string{"retry": "1", "deadLetter": "2", "skip": "2"} {
		c.pushIDs("q", action, "1", "2")
		path := of + "/partitions/" + action + "/unblock"
		unblock := func() answer[api.Unblocked] { return ask[api.Unblocked](c, post(path, `{"action":"`+action+`"}`)) }
		query := "consumerGroup=g&subscriptionMode=all&batch=1"
		d := c.popPartition("q", action, query).ok(http.StatusOK)
		require.Equal(t, http.StatusConflict, ask[api.Error](c.loose(), post(path, `{"action":"skip"}`)).Status, "the partition is not blocked yet")
		require.True(t, c.ackBatch("g", d.ack("failed", 0)...).ok(http.StatusOK)[0].Success)
		require.Equal(t, http.StatusNoContent, c.popPartition("q", action, query).Status)
		found := ask[api.BlockedPartitions](c, get(of+"/blocked")).ok(http.StatusOK)
		require.Len(t, found.Partitions, 1)
		require.Equal(t, "1", *found.Partitions[0].TransactionID)
		resting := ask[api.PlaceList](c, get(of+"/partitions?list=resting")).ok(http.StatusOK).Partitions[0]
		require.Equal(t, "blocked", *resting.Cause)
		require.Nil(t, resting.ReadyAt)

		require.Equal(t, "1", *unblock().ok(http.StatusOK).TransactionID)
		require.Empty(t, ask[api.BlockedPartitions](c, get(of+"/blocked")).ok(http.StatusOK).Partitions)
		require.Equal(t, next, c.popPartition("q", action, query).ok(http.StatusOK).Messages[0].TransactionID)
	}
	require.Equal(t, http.StatusNotFound, ask[api.Error](c.loose(), post(of+"/partitions/nowhere/unblock", `{"action":"skip"}`)).Status)
	_, err := conn.Exec(t.Context(), `SELECT belfry.unblock('q', 'nowhere', 'g', 'skip')`)
	require.ErrorContains(t, err, "its partition 'nowhere'")
}
