package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelays(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"delayedProcessing":                        delayProcessing,
		"delayedProcessing hides younger messages": delayHidesTheYoung,
		"other partitions":                         delayOtherPartitions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), t.Name())
		})
	}
}

// twoHours is an option value in seconds. Each test simulates that one hour passes at a time.
const twoHours = 7200

func delayProcessing(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"delayedProcessing": twoHours}).ok(http.StatusOK)
	c.pushIDs(queue, "", "1", "2")
	require.Empty(t, c.popIDs(queue, "batch=9"))
	c.elapse(queue, time.Hour)
	require.Empty(t, c.popIDs(queue, "batch=9"))
	require.Empty(t, c.popPartition(queue, "Default", "").Raw)
	c.elapse(queue, time.Hour)
	require.Equal(t, []string{"1", "2"}, c.popIDs(queue, "batch=9"))
	require.Equal(t, []string{"1", "2"}, c.popIDs(queue, "batch=9&consumerGroup=later"), "the messages must be visible to every group")
}

func delayHidesTheYoung(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"delayedProcessing": twoHours}).ok(http.StatusOK)
	c.pushIDs(queue, "", "old")
	c.elapse(queue, time.Hour)
	require.Empty(t, c.popIDs(queue, ""))
	c.pushIDs(queue, "", "young")
	c.elapse(queue, time.Hour)
	require.Equal(t, []string{"old"}, c.popIDs(queue, "batch=9&autoAck=true"))
	require.Empty(t, c.popIDs(queue, ""))
	c.elapse(queue, time.Hour)
	require.Equal(t, []string{"young"}, c.popIDs(queue, "batch=9&autoAck=true"))
}

func delayOtherPartitions(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"windowBuffer": twoHours}).ok(http.StatusOK)
	c.pushIDs(queue, "quiet", "1")
	c.elapse(queue, time.Hour)
	require.Empty(t, c.popIDs(queue, ""))
	c.pushIDs(queue, "busy", "2")
	c.elapse(queue, time.Hour)
	require.Equal(t, []string{"1"}, c.popIDs(queue, "batch=9&partitions=9"), "each partition must have its own window")
}
