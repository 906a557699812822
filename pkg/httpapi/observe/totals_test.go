package observe_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// counted are two queues with three groups.
func counted() *apitest.Fakes {
	at := noon
	return &apitest.Fakes{Totals: totals.Snapshot{At: at, Queues: []totals.Queue{
		{ID: apitest.IDTwo, Name: "B", CreatedAt: time.Unix(0, 0), Groups: 1, QueueSums: totals.QueueSums{Partitions: 1, Messages: totals.Counts{Total: 100, Pending: 100}, Oldest: at}},
		{
			ID: apitest.IDOne, Name: "a", Namespace: "n", Task: "t", CreatedAt: time.Unix(0, 0), Paused: true, Groups: 2, DeadLetters: 50_000, Failing: 1, Late: true,
			QueueSums: totals.QueueSums{Partitions: 3, Messages: totals.Counts{Total: 20, Pending: 7, Processing: 2, Dead: 5}, Oldest: at.Add(-90 * time.Second)},
		},
	}, Groups: []totals.Group{
		{Queue: "B", Name: "g", Mode: queue.SubscribeAll, CreatedAt: time.Unix(0, 0), GroupSums: totals.GroupSums{Partitions: 1, Lag: 100, Lagging: 1, Due: 1}},
		{Queue: "a", QueuePaused: true, Name: "g", Late: true, Mode: queue.SubscribeAll, CreatedAt: time.Unix(0, 0), GroupSums: totals.GroupSums{
			Partitions: 3, Lag: 9, Lagging: 2, Due: 1, Leased: 1, Resting: 1, Failing: 1, Held: 2, DeadLetters: 49_999, Oldest: at.Add(-90 * time.Second), ConsumedAt: at,
		}},
		{Queue: "a", Name: "h", Mode: queue.SubscribeNew, StartAt: at, CreatedAt: time.Unix(0, 0), Paused: true, GroupSums: totals.GroupSums{Lag: 3, DeadLetters: 1}},
	}}}
}

const groupG = `"name": "g", "paused": false, "subscriptionMode": null, "subscriptionTimestamp": null, "createdAt": "1970-01-01T00:00:00.000Z", "joining": false,
	"partitions": 3, "lag": 9, "oldestSeconds": 90, "late": true, "partitionsWithLag": 2, "due": 1, "leased": 1, "resting": 1, "failing": 1, "leasedMessages": 2, "deadLetters": 49999,
	"lastConsumedAt": "2026-05-16T12:00:00.123Z"`

func TestQueuesHaveTheirTotals(t *testing.T) {
	t.Parallel()
	f := counted()
	require.JSONEq(t, `{"countedAt": "2026-05-16T12:00:00.123Z", "queues": [{"id": "01000000-0000-0000-0000-000000000001", "name": "a", "namespace": "n", "task": "t",
		"createdAt": "1970-01-01T00:00:00.000Z", "paused": true, "groups": 2, "partitions": 3, "messages": {"total": 20, "pending": 7, "processing": 2, "deadLetter": 5},
		"deadLetters": 50000, "failing": 1, "oldestSeconds": 90, "late": true}], "pagination": {"limit": 1000, "next": null}}`,
		listed(t, f, "/api/v1/queues?limit=5000&name=A&namespace=n&task=t"))
	for sort, first := range map[string]string{"": "B", "name": "B", "backlog": "B", "pending": "B", "oldest": "a", "failures": "a", "deadLetters": "a", "partitions": "a", "stored": "B"} {
		var page api.QueuePage
		require.NoError(t, json.Unmarshal([]byte(listed(t, f, "/api/v1/queues?limit=1&sort="+sort)), &page))
		require.Equal(t, first, page.Queues[0].Name, sort)
		require.NoError(t, json.Unmarshal([]byte(listed(t, f, "/api/v1/queues?limit=1&sort="+sort+"&cursor="+url.QueryEscape(*page.Pagination.Next))), &page))
		require.NotEqual(t, first, page.Queues[0].Name, sort)
		require.Nil(t, page.Pagination.Next)
	}
	for target, says := range map[string]string{"?cursor=%00": "", "?cursor=x": "pagination.next", "?cursor=1_9_ab": "pagination.next", "?cursor=1_-1_ab": "pagination.next", "?sort=size": "backlog"} {
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/queues"+target, ""), http.StatusBadRequest), says, target)
	}
}

// The same group has the same numbers in each answer.
func TestAGroupHasOneNumberEverywhere(t *testing.T) {
	t.Parallel()
	f := counted()
	require.JSONEq(t, `{"countedAt": "2026-05-16T12:00:00.123Z", "groups": [{"queueName": "a", "queuePaused": true, `+groupG+`}], "pagination": {"limit": 50, "next": null}}`,
		listed(t, f, "/api/v1/groups?queue=A&name=G&sort=oldest"))
	var page api.QueueGroups
	text := listed(t, f, "/api/v1/resources/queues/a/groups?limit=1")
	require.Contains(t, text, `"deadLetters":49999`)
	require.NoError(t, json.Unmarshal([]byte(text), &page))
	require.Equal(t, api.Counts{Total: 20, Pending: 7, Processing: 2, Completed: 6, DeadLetter: 5}, page.Messages)
	require.EqualValues(t, 50_000, page.DeadLetters)
	require.Equal(t, "g", *page.Pagination.Next)
	require.Contains(t, listed(t, f, "/api/v1/resources/queues/a/groups?cursor=g"), `"groups":[{"name":"h"`)
	require.Contains(t, listed(t, f, "/api/v1/resources/queues/a/groups?from=h"), `"groups":[{"name":"h"`)
	var state api.GroupState
	require.NoError(t, json.Unmarshal([]byte(listed(t, f, "/api/v1/consumer-groups/g/queues/a")), &state))
	require.False(t, state.QueuePaused, "what is paused is read at once")
	require.Equal(t, page.Groups[0], state.Group)
	require.JSONEq(t, `{"countedAt": "2026-05-16T12:00:00.123Z", "queues": 2, "groups": 3, "partitions": 4, "deadLetters": 50000, "failing": 1, "oldestSeconds": 90,
		"messages": {"total": 120, "pending": 107, "processing": 2, "completed": 6, "failed": 0, "deadLetter": 5}}`, listed(t, f, "/api/v1/totals"))
	f.Lists.Found.Problems = []problem.Problem{
		{Kind: problem.Lag, Queue: "a", Group: "g"}, {Kind: problem.DeadLetters, Queue: "a", Group: "g"}, {Kind: problem.PausedQueue, Queue: "a"},
		{Kind: problem.PausedGroup, Queue: "a", Group: "h"}, {Kind: problem.StuckHead, Queue: "a", Group: "g", Messages: 4},
	}
	var found api.Problems
	require.NoError(t, json.Unmarshal([]byte(listed(t, f, "/api/v1/problems")), &found))
	for i, n := range []int64{9, 49_999, 9, 3, 4} {
		require.Equal(t, n, found.Problems[i].Messages, found.Problems[i].Kind)
	}
	require.True(t, f.Totals.At.Truncate(time.Millisecond).Equal(*found.CountedAt))
	for target, n := range map[string]string{"": "50000", "?queue=a": "50000", "?queue=a&consumerGroup=h": "1", "?queue=B": "0", "?partition=p": "null", "?error=x": "null", "?from=2026-05-16T12:00:00Z": "null"} {
		require.Contains(t, listed(t, f, "/api/v1/dlq/summary"+target), `"total":`+n+`,`, target)
	}
}

// What was made a moment ago is waited for. fresh=true waits for what was committed before the request.
func TestTotalsAreAwaitedForWhatIsNew(t *testing.T) {
	t.Parallel()
	f := counted()
	f.FreshTotals = &totals.Snapshot{Queues: []totals.Queue{{Name: "new"}}, Groups: []totals.Group{{Queue: "new", Name: "g"}}}
	listed(t, f, "/api/v1/resources/queues/new/groups")
	listed(t, f, "/api/v1/consumer-groups/g/queues/new")
	require.Contains(t, listed(t, f, "/api/v1/queues?fresh=true"), `"name":"new"`)
	require.NotContains(t, listed(t, f, "/api/v1/queues"), `"name":"new"`)
	apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/resources/queues/other/groups", ""), http.StatusNotFound)
	apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/consumer-groups/h/queues/new", ""), http.StatusNotFound)
	f.Lists.Missing = &queue.Error{Code: queue.CodeNotFound, Message: "Queue not found"}
	apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/resources/queues/new/groups", ""), http.StatusNotFound)
}

// An autoscaler starts the first consumer of a group that does not exist yet, and none while every message waits for an instant.
func TestScaleIsTheWorkOfAGroup(t *testing.T) {
	t.Parallel()
	f := counted()
	resting := totals.GroupSums{Lag: 4, Resting: 2, Oldest: noon.Add(-time.Hour)}
	f.Totals.Groups = append(f.Totals.Groups, totals.Group{Queue: "a", Name: "joins", Joining: true, GroupSums: totals.GroupSums{Lag: 1}}, totals.Group{Queue: "a", Name: "rests", GroupSums: resting})
	f.Totals.Groups[1].OldestDue = noon.Add(-20 * time.Second)
	for path, want := range map[string]string{
		"a/g":     `{"pending": 9, "lagSeconds": 20}`,
		"a/joins": `{"pending": 9, "lagSeconds": 90}`,
		"a/rests": `{"pending": 0, "lagSeconds": 0}`,
		"a/new":   `{"pending": 20, "lagSeconds": 90}`,
		"B/g":     `{"pending": 100, "lagSeconds": 0}`,
	} {
		require.JSONEq(t, want, listed(t, f, "/api/v1/scale/"+path), path)
	}
	f.FreshTotals = &totals.Snapshot{Queues: []totals.Queue{{Name: "new"}}}
	require.JSONEq(t, `{"pending": 0, "lagSeconds": 0}`, listed(t, f, "/api/v1/scale/new/g"))
	apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/scale/deleted/g", ""), http.StatusNotFound)
	f.Lists.Missing = &queue.Error{Code: queue.CodeNotFound, Message: "Queue not found"}
	apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/scale/a/g", ""), http.StatusNotFound)
}
