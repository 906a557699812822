package observe_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/test/apitest"
)

func listed(t *testing.T, f *apitest.Fakes, target string) string {
	t.Helper()
	rec := apitest.Call(f, http.MethodGet, target, "")
	require.Equal(t, http.StatusOK, rec.Code, "%s: %s", target, rec.Body)
	return rec.Body.String()
}

func TestTags(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Lists: apitest.Lists{Pairs: []api.TagPair{{Namespace: "n"}, {Namespace: "n", Task: "t"}}}}
	require.JSONEq(t, `{"tags": [{"namespace": "n", "task": ""}, {"namespace": "n", "task": "t"}], "pagination": {"limit": 50, "next": null}}`, listed(t, f, "/api/v1/tags"))
	require.JSONEq(t, `{"tags": [{"namespace": "n", "task": ""}, {"namespace": "n", "task": "t"}],
		"pagination": {"limit": 2, "next": {"afterNamespace": "n", "afterTask": "t"}}}`, listed(t, f, "/api/v1/tags?limit=2&afterNamespace=a&afterTask=b"))
	require.Equal(t, api.TagPair{Namespace: "a", Task: "b"}, f.Lists.After)
}

// Every cursor of an answer is accepted, and leads to the same position.
func TestProblems(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Lists: apitest.Lists{Found: problem.Found{Total: 7, Examined: 9, Next: &problem.Position{Groups: true, After: 12}, Problems: []problem.Problem{{
		Kind: problem.StuckHead, Urgent: true, Queue: "q", Group: "g", Age: time.Minute, Deliveries: 3, Failures: 2, RetryIn: time.Second, Messages: 4,
	}}}}}
	require.JSONEq(t, `{"countedAt": null, "problems": [{"kind": "stuck_head", "urgent": true, "queue": "q", "consumerGroup": "g", "partition": "", "ageSeconds": 60, "messages": 4,
		"deliveries": 3, "failures": 2, "retryInSeconds": 1, "session": null, "schedule": null, "error": null}],
		"found": 7, "examined": 9, "pagination": {"limit": 50, "next": "groups_12"}}`, listed(t, f, "/api/v1/problems"))
	require.Zero(t, f.Lists.From)
	listed(t, f, "/api/v1/problems?cursor=groups_12")
	require.Equal(t, problem.Position{Groups: true, After: 12}, f.Lists.From)
	f.Lists.Found.Next = &problem.Position{After: 3}
	require.Contains(t, listed(t, f, "/api/v1/problems?limit=2"), `"next":"queues_3"`)
	require.Equal(t, 2, f.Lists.Limit)
	listed(t, f, "/api/v1/problems?cursor=queues_3")
	require.Equal(t, problem.Position{After: 3}, f.Lists.From)
	f.Lists.Found.Problems = []problem.Problem{{Kind: problem.ScheduleError, Queue: "q", Schedule: "s", Error: "no such zone"}}
	require.Contains(t, listed(t, f, "/api/v1/problems"), `"schedule":"s","error":"no such zone"`)
	for _, cursor := range []string{"3", "groups", "groups_", "groups_x", "queues_-1", "other_3", "groups_99999999999999999999"} {
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/problems?cursor="+cursor, ""), http.StatusBadRequest), "pagination.next")
	}
}
