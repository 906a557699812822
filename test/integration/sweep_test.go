package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

// often makes the sweeps run every 200 ms.
func often(c *config.Config) {
	c.Sweep.RetentionInterval, c.Sweep.EvictionInterval = 200*time.Millisecond, 200*time.Millisecond
}

// The options retentionEnabled, retentionSeconds, completedRetentionSeconds and maxWaitTimeSeconds must work while two
// instances run.
func TestRetentionOptions(t *testing.T) {
	t.Parallel()
	first := start(t, often)
	startOn(t, first.dsn, often)
	c := first.client(t)
	left := func(queue string) (n int) {
		c.scan(t, `SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
			JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = $1`, []any{queue}, &n)
		return n
	}
	for queue, options := range map[string]map[string]any{
		"old":       {"retentionEnabled": true, "retentionSeconds": 1800},
		"completed": {"retentionEnabled": true, "completedRetentionSeconds": 1800},
		"waited":    {"maxWaitTimeSeconds": 1800},
		"off":       {"retentionEnabled": false, "retentionSeconds": 1800, "completedRetentionSeconds": 1800},
	} {
		c.configure(queue, options).ok(http.StatusOK)
		c.pushIDs(queue, "", "1", "2", "3")
	}
	require.Equal(t, []string{"1", "2"}, c.popIDs("completed", "batch=2&autoAck=true"))
	require.Equal(t, []string{"1", "2", "3"}, c.popIDs("off", "batch=9&autoAck=true"))
	for _, queue := range []string{"old", "completed", "waited", "off"} {
		c.elapse(queue, time.Hour)
	}
	until(t, "old messages are deleted, even if they are unread", func() bool { return left("old") == 0 })
	until(t, "completed messages are deleted", func() bool { return left("completed") == 1 })
	until(t, "messages that waited too long are deleted", func() bool { return left("waited") == 0 })
	require.Equal(t, 3, left("off"), "without retentionEnabled nothing may be deleted")
	require.Empty(t, c.popIDs("old", "batch=9"))
	require.Equal(t, []string{"3"}, c.popIDs("completed", "batch=9"))

	again := c.pushIDs("old", "", "1")
	require.Equal(t, "queued", again[0].Status, "the transaction id of a deleted message must be accepted again")
	waiting := c.begin(popCall("waited", "wait=true&timeout=20000"))
	c.untilWaiting(1)
	c.pushIDs("waited", "", "4")
	require.Equal(t, []string{"4"}, waiting.delivery().ok(http.StatusOK).ids(), "deleted messages must not block a pop")
}

// A pop waits for a partition by name, and the partition is removed. The pop must keep waiting, also at an instance that
// did not remove the partition.
func TestWaitingForAPartitionThatIsRemoved(t *testing.T) {
	t.Parallel()
	first := start(t)
	c := first.client(t)
	c.pushIDs("q", "p", "1")
	require.Equal(t, []string{"1"}, c.popPartition("q", "p", "autoAck=true").ok(http.StatusOK).ids())
	waiting := c.begin(popPartitionCall("q", "p", "wait=true&timeout=25000"))
	c.untilWaiting(1)
	var n int
	c.scan(t, `WITH gone AS (DELETE FROM belfry.message RETURNING 1),
		emptied AS (UPDATE belfry.partition SET trimmed = last_seq, created_at = now() - interval '31 days',
			last_push_at = now() - interval '31 days' RETURNING 1)
		SELECT count(*) FROM gone, emptied`, nil, &n)
	second := startOn(t, first.dsn) // its first sweep removes the partition
	until(t, "the partition is removed", func() bool {
		c.scan(t, `SELECT count(*) FROM belfry.partition`, nil, &n)
		if n > 0 { // the first instance may have run the sweep before, so the test makes the sweep due again
			c.scan(t, `WITH due AS (UPDATE belfry.sweep SET next_at = '-infinity' RETURNING 1) SELECT count(*) FROM due`, nil, &n)
			require.NoError(t, second.stop(t))
			second = startOn(t, first.dsn)
			return false
		}
		return true
	})
	c.pushIDs("q", "p", "2")
	require.Equal(t, []string{"2"}, waiting.delivery().ok(http.StatusOK).ids())
}
