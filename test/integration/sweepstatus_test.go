package integration_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type swept struct{ Retention, Completed, Evicted, Unread, Expired int64 }

type sweptQueue struct {
	Swept      swept
	Partitions []struct {
		Name   string
		Cursor struct{ TotalConsumed, TotalExpired int64 }
	}
}

// The status of the queue, of its partitions and of the group must report how many messages were deleted or skipped unread.
func TestSweptMessagesAreReported(t *testing.T) {
	t.Parallel()
	c := start(t, often).client(t)
	of := func(base, queue string) sweptQueue {
		return ask[sweptQueue](c, get(base+url.PathEscape(queue))).ok(http.StatusOK)
	}
	const status, resources = "/api/v1/status/queues/", "/api/v1/resources/queues/"
	c.configure("waited", map[string]any{"maxWaitTimeSeconds": 1800}).ok(http.StatusOK)
	c.configure("old", map[string]any{"retentionEnabled": true, "retentionSeconds": 1800}).ok(http.StatusOK)
	c.configure("expired", map[string]any{"expireAfterSeconds": 1800}).ok(http.StatusOK)
	for _, queue := range []string{"waited", "old", "expired"} {
		require.Empty(t, c.popIDs(queue, "consumerGroup=g"), "the first pop only creates the group")
		require.Zero(t, of(status, queue).Swept)
		c.pushIDs(queue, "p", "1", "2", "3")
		c.elapse(queue, time.Hour)
	}
	for queue, want := range map[string]swept{
		"waited": {Evicted: 3, Unread: 3}, "old": {Retention: 3, Unread: 3}, "expired": {Expired: 3},
	} {
		until(t, "the sweep of "+queue+" is reported", func() bool { return of(status, queue).Swept == want })
		require.Equal(t, want, of(resources, queue).Swept)
	}

	sweeps := ask[struct {
		Sweeps []struct {
			Job     string
			Running bool
			NextAt  time.Time
		}
	}](c, get("/api/v1/status/sweeps")).ok(http.StatusOK).Sweeps
	require.Len(t, sweeps, 5)
	for i, job := range []string{"audit", "eviction", "history", "partitions", "retention"} {
		require.Equal(t, job, sweeps[i].Job)
		require.False(t, sweeps[i].NextAt.IsZero())
	}
}

// A pop must count the messages that it finds expired, before any sweep.
func TestMessagesExpiredByPopsAreReported(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("q", map[string]any{"expireAfterSeconds": 1800}).ok(http.StatusOK)
	c.pushIDs("q", "p", "1", "2")
	c.elapse("q", time.Hour)
	c.pushIDs("q", "p", "3")
	require.Equal(t, []string{"3"}, c.popIDs("q", "consumerGroup=g&batch=9&autoAck=true"))
	group := ask[map[string]struct {
		Partitions []struct{ TotalConsumed, TotalExpired int64 }
	}](c, get("/api/v1/consumer-groups/g")).ok(http.StatusOK)
	require.Len(t, group["q"].Partitions, 2, "the group must have the partitions p and Default")
	var expired int64
	for _, p := range group["q"].Partitions {
		expired += p.TotalExpired
	}
	status := ask[sweptQueue](c, get("/api/v1/status/queues/q")).ok(http.StatusOK)
	require.Equal(t, "p", status.Partitions[1].Name)
	// An earlier sweep may have counted the messages instead.
	require.Equal(t, int64(2), expired+status.Swept.Expired)
	require.Equal(t, expired, status.Partitions[1].Cursor.TotalExpired)
}
