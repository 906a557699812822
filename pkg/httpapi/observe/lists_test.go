package observe_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/test/apitest"
)

func listed(t *testing.T, f *apitest.Fakes, target string) string {
	t.Helper()
	rec := apitest.Call(f, http.MethodGet, target, "")
	require.Equal(t, http.StatusOK, rec.Code, "%s: %s", target, rec.Body)
	return rec.Body.String()
}

func TestQueues(t *testing.T) {
	t.Parallel()
	next := "z"
	f := &apitest.Fakes{Lists: apitest.Lists{Page: stats.QueuePage{Queues: []stats.PagedQueue{{
		ID: apitest.IDOne, Name: "a", Namespace: "n", Task: "t", CreatedAt: time.Unix(0, 0), Paused: true, Groups: 1, Partitions: 100,
		Counts: stats.Counts{Total: 2, Pending: 3, Processing: 4, DeadLetter: 5}, Oldest: 90 * time.Second,
	}}, Next: &next}}}
	require.JSONEq(t, `{"queues": [{"id": "01000000-0000-0000-0000-000000000001", "name": "a", "namespace": "n", "task": "t", "createdAt": "1970-01-01T00:00:00.000Z",
		"paused": true, "groups": 1, "partitions": 100, "messages": {"total": 2, "pending": 3, "processing": 4, "deadLetter": 5},
		"countsAreLowerBounds": true, "oldestSeconds": 90}], "pagination": {"limit": 100, "next": "z"}}`,
		listed(t, f, "/api/v1/queues?limit=5000&name=x&namespace=y&task=z&cursor="))
	empty := ""
	require.Equal(t, stats.QueuePageFilter{After: &empty, Name: "x", Namespace: "y", Task: "z", Limit: 100}, f.Lists.Filter, "a name may be empty")
	f.Lists.Page = stats.QueuePage{}
	require.JSONEq(t, `{"queues": [], "pagination": {"limit": 50, "next": null}}`, listed(t, f, "/api/v1/queues"))
	require.Nil(t, f.Lists.Filter.After)
	apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/queues?cursor=%00", ""), http.StatusBadRequest)
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
	require.JSONEq(t, `{"problems": [{"kind": "stuck_head", "urgent": true, "queue": "q", "consumerGroup": "g", "partition": "", "ageSeconds": 60, "messages": 4,
		"messagesAreLowerBound": true, "deliveries": 3, "failures": 2, "retryInSeconds": 1, "session": null}],
		"found": 7, "examined": 9, "pagination": {"limit": 50, "next": "groups_12"}}`, listed(t, f, "/api/v1/problems"))
	require.Zero(t, f.Lists.From)
	listed(t, f, "/api/v1/problems?cursor=groups_12")
	require.Equal(t, problem.Position{Groups: true, After: 12}, f.Lists.From)
	f.Lists.Found.Next = &problem.Position{After: 3}
	require.Contains(t, listed(t, f, "/api/v1/problems?limit=2"), `"next":"queues_3"`)
	require.Equal(t, 2, f.Lists.Limit)
	listed(t, f, "/api/v1/problems?cursor=queues_3")
	require.Equal(t, problem.Position{After: 3}, f.Lists.From)
	for _, cursor := range []string{"3", "groups", "groups_", "groups_x", "queues_-1", "other_3", "groups_99999999999999999999"} {
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/problems?cursor="+cursor, ""), http.StatusBadRequest), "pagination.next")
	}
}
