package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// A redrive job runs without its client. Another instance lists it and stops it, and the audit has both.
func TestARedriveJobIsListedAndStoppedOnAnyInstance(t *testing.T) {
	t.Parallel()
	one := start(t)
	c, other := one.client(t), startOn(t, one.dsn).client(t)
	const letters = 30
	for i := range letters {
		c.pushIDs("q", "p", fmt.Sprint("m", i))
	}
	c.deadLetterAll("q", "g")
	job := ask[api.RedriveJob](c, post("/api/v1/dlq/jobs", `{"queue":"q","consumerGroup":"g","all":true,"rate":5}`)).ok(http.StatusAccepted)
	require.Equal(t, int64(letters), job.Matched)
	seen := func() api.RedriveJob {
		jobs := ask[api.RedriveJobs](other, get("/api/v1/dlq/jobs")).ok(http.StatusOK).Jobs
		require.Len(t, jobs, 1)
		return jobs[0]
	}
	require.Eventually(t, func() bool { return seen().Redriven > 0 }, patience, 20*time.Millisecond)
	stopped := ask[api.RedriveJob](other, post("/api/v1/dlq/jobs/"+job.ID+"/stop", "")).ok(http.StatusOK)
	require.Equal(t, "stopped", stopped.State)
	require.Less(t, stopped.Redriven, int64(letters))
	entries := c.audit("").Entries
	require.Equal(t, "dead_letters.stop", entries[0].Action)
	require.Equal(t, job.ID, entries[1].ID)
	require.JSONEq(t, fmt.Sprintf(`{"deadLetters":%d}`, stopped.Redriven), string(entries[1].Counts))
	require.Equal(t, int64(letters), stopped.Redriven+int64(len(c.dlq("queue=q").Messages)), "the count is what was redriven")
	for body, want := range map[string]int{
		`{"queue":"q","consumerGroup":"g","all":true,"dryRun":true}`: http.StatusBadRequest, `{"queue":"q","consumerGroup":"g"}`: http.StatusBadRequest,
	} {
		require.Equal(t, want, ask[json.RawMessage](c.loose(), post("/api/v1/dlq/jobs", body)).Status, body)
	}
	require.Equal(t, http.StatusNotFound, ask[json.RawMessage](c.loose(), post("/api/v1/dlq/jobs/"+nobody+"/stop", "")).Status)
	all := ask[api.RedriveJob](c, post("/api/v1/dlq/jobs", `{"queue":"q","consumerGroup":"g","all":true}`)).ok(http.StatusAccepted)
	require.Eventually(t, func() bool { return len(c.dlq("queue=q").Messages) == 0 }, patience, 20*time.Millisecond)
	require.NotEqual(t, job.ID, all.ID)
}
