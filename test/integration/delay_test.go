package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

// late is how late a delayed message may arrive on a busy machine.
const late = 3 * time.Second

// pollOften makes waiting pops poll often, so that these tests measure only the delay of the message.
func pollOften(cfg *config.Config) { cfg.Dispatch.MaxPollInterval = cfg.Dispatch.PollInterval }

func TestDelays(t *testing.T) {
	t.Parallel()
	s := start(t, pollOften)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"delayedProcessing":                 delayProcessing,
		"delayedProcessing hides the young": delayHidesTheYoung,
		"windowBuffer":                      delayWindow,
		"configure":                         delayConfigure,
		"other partitions":                  delayOtherPartitions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), t.Name())
		})
	}
}

// requireBetween requires a duration of at least least and at most late more.
func requireBetween(t *testing.T, least, took time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, took, least)
	require.Less(t, took, least+late)
}

func delayProcessing(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"delayedProcessing": 1}).ok(http.StatusOK)
	started := time.Now()
	c.pushIDs(queue, "", "1", "2")
	require.Empty(t, c.popIDs(queue, "batch=9"))
	require.Empty(t, c.popPartition(queue, "Default", "").Raw)
	got := c.pop(queue, "batch=9&wait=true&timeout=20000").ok(http.StatusOK)
	requireBetween(t, time.Second, time.Since(started))
	require.Equal(t, []string{"1", "2"}, got.ids())
	require.Equal(t, []string{"1", "2"}, c.popIDs(queue, "batch=9&consumerGroup=later"), "visible to every group")
}

func delayHidesTheYoung(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"delayedProcessing": 1}).ok(http.StatusOK)
	c.pushIDs(queue, "", "old")
	require.Empty(t, c.popIDs(queue, "wait=true&timeout=500"))
	started := time.Now()
	c.pushIDs(queue, "", "young")
	first := c.pop(queue, "batch=9&wait=true&timeout=20000&autoAck=true").ok(http.StatusOK)
	require.Equal(t, []string{"old"}, first.ids())
	second := c.pop(queue, "batch=9&wait=true&timeout=20000&autoAck=true").ok(http.StatusOK)
	require.Equal(t, []string{"young"}, second.ids())
	requireBetween(t, time.Second, time.Since(started))
}

func delayWindow(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"windowBuffer": 1}).ok(http.StatusOK)
	c.pushIDs(queue, "", "1")
	require.Empty(t, c.popIDs(queue, "wait=true&timeout=600"), "the window is open")
	started := time.Now()
	c.pushIDs(queue, "", "2")
	require.Empty(t, c.popPartition(queue, "Default", "").Raw, "of one partition too")
	got := c.pop(queue, "batch=9&wait=true&timeout=20000").ok(http.StatusOK)
	requireBetween(t, time.Second, time.Since(started))
	require.Equal(t, []string{"1", "2"}, got.ids(), "the second message delayed the first")
}

func delayConfigure(t *testing.T, c client, queue string) {
	for _, option := range []string{"delayedProcessing", "windowBuffer"} {
		queue := queue + option
		long, none := map[string]any{option: 3600}, map[string]any{}
		c.configure(queue, long).ok(http.StatusOK)
		c.pushIDs(queue, "", "1")
		require.Empty(t, c.popIDs(queue, "consumerGroup=a"), option)
		c.configure(queue, none).ok(http.StatusOK)
		require.Equal(t, []string{"1"}, c.popIDs(queue, "consumerGroup=a"), "%s: at once, without waiting", option)
		require.Equal(t, []string{"1"}, c.popIDs(queue, "consumerGroup=b&autoAck=true"), option)
		c.configure(queue, long).ok(http.StatusOK)
		c.pushIDs(queue, "", "2")
		require.Empty(t, c.popIDs(queue, "consumerGroup=b"), option)
		c.configure(queue, none).ok(http.StatusOK)
		c.configure(queue, long).ok(http.StatusOK)
		require.Empty(t, c.popIDs(queue, "consumerGroup=b"), "%s: hidden again", option)

		waiting := c.begin(popCall(queue, "consumerGroup=b&wait=true&timeout=60000"))
		c.configure(queue, none).ok(http.StatusOK)
		got := waiting.delivery()
		require.Equal(t, []string{"2"}, got.ok(http.StatusOK).ids(), option)
		require.Less(t, got.Took, patience, option)
	}
}

func delayOtherPartitions(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"windowBuffer": 1}).ok(http.StatusOK)
	c.pushIDs(queue, "quiet", "1")
	require.Empty(t, c.popIDs(queue, "wait=true&timeout=600"))
	c.pushIDs(queue, "busy", "2")
	got := c.pop(queue, "batch=9&partitions=9&wait=true&timeout=20000").ok(http.StatusOK)
	require.Equal(t, []string{"1"}, got.ids(), "each partition has its own window")
}
