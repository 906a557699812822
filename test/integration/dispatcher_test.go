package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The status of the dispatcher must name the group whose next message is delayed, and must count the commits of pushes.
func TestDispatcherStatusNamesDelayedGroupsAndCountsCommits(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	options(c, "later", "delayedProcessing", 3600)
	c.pushIDs("later", "", "first", "second")
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_, _ = c.send(t.Context(), popCall("later", "wait=true&timeout=60000&consumerGroup=slow")) // the request ends when the server stops
	}()
	type due struct {
		Queue, ConsumerGroup string
		InSeconds            float64
	}
	var found []due
	until(t, "the status names the delayed message", func() bool {
		status := ask[struct {
			Due     []due
			Batches []struct {
				Operation            string
				Flushes, Calls, Size int64
			}
		}](c, get("/api/v1/status/dispatcher")).ok(http.StatusOK)
		found = status.Due
		for _, one := range status.Batches {
			if one.Operation == "push" {
				require.EqualValues(t, 1, one.Flushes)
				require.EqualValues(t, 1, one.Calls)
				require.EqualValues(t, 2, one.Size)
			}
		}
		require.NotEmpty(t, status.Batches)
		return len(found) > 0
	})
	require.Equal(t, "later", found[0].Queue)
	require.Equal(t, "slow", found[0].ConsumerGroup)
	require.InDelta(t, 3600, found[0].InSeconds, 60)
	require.NoError(t, s.stop(t))
	<-waiting
}
