package observe_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

var atNoon = time.Date(2026, 5, 16, 12, 0, 0, 123456000, time.UTC)

func oneQueue() stats.Queue {
	return stats.Queue{
		ID: apitest.IDOne, Name: "50% ☂", Namespace: "n", Task: "t", CreatedAt: atNoon, Partitions: 2,
		Options: queue.Options{LeaseTime: 1, RetryLimit: 2, RetryDelay: 3, TTL: 4, MaxSize: 5, Priority: 6, DeadLetterQueue: true},
		Counts:  stats.Counts{Total: 10, Pending: 1, Processing: 2, Completed: 3, DeadLetter: 4},
	}
}

const oneCounts = `{"total": 10, "pending": 1, "processing": 2, "completed": 3, "failed": 0, "deadLetter": 4}`

func oneDetail() stats.QueueDetail {
	q := oneQueue()
	return stats.QueueDetail{Queue: q, More: true, Page: []stats.Partition{
		{ID: apitest.IDTwo, Name: "a", CreatedAt: atNoon, Counts: q.Counts, Oldest: atNoon, Newest: atNoon, Consumed: 7, ActiveAt: atNoon, Expired: 8},
		{ID: apitest.IDThree, Name: "ü/", CreatedAt: atNoon},
	}, Swept: api.Swept{Retention: 1, Completed: 2, Evicted: 3, Unread: 4, Expired: 5, Skipped: 6}}
}

const oneSwept = `{"retention": 1, "completed": 2, "evicted": 3, "unread": 4, "expired": 5, "skipped": 6}`

const noCounts = `{"total": 0, "pending": 0, "processing": 0, "completed": 0, "failed": 0, "deadLetter": 0}`

const listedQueue = `{"id": "01000000-0000-0000-0000-000000000001", "name": "50% ☂", "namespace": "n", "task": "t",
	"createdAt": "2026-05-16T12:00:00.123Z", "paused": false, "partitions": 2, "messages": {"total": 10, "pending": 1, "processing": 2, "deadLetter": 4}}`

func TestResourcesHaveTheShapesOfQueenMQ(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Resources: apitest.Resources{
		Queues: []stats.Queue{oneQueue()}, Detail: oneDetail(), Tags: []stats.Tag{{Name: "x", Queues: 1, Partitions: 2, Counts: oneQueue().Counts}},
		Sweeps: []api.Sweep{{Job: "eviction", Running: true, NextAt: atNoon}},
		Overview: stats.Overview{
			Queues: 1, Partitions: 2, Namespaces: 3, Tasks: 4, Counts: oneQueue().Counts,
			TimeLag: api.Spread{Avg: 1, Median: 2, Min: 3, Max: 4}, OffsetLag: api.Spread{Avg: 5, Median: 6, Min: 7, Max: 8},
		},
	}}
	for target, want := range map[string]string{
		"/api/v1/resources/queues":         `{"queues": [` + listedQueue + `]}`,
		"/api/v1/status/queues":            `{"queues": [` + listedQueue + `], "pagination": {"limit": 100, "offset": 0}}`,
		"/api/v1/status/queues?limit=5000": `{"queues": [` + listedQueue + `], "pagination": {"limit": 1000, "offset": 0}}`,
		"/api/v1/status/queues?limit=x":    `{"queues": [` + listedQueue + `], "pagination": {"limit": 100, "offset": 0}}`,
		"/api/v1/status/queues?offset=-3":  `{"queues": [` + listedQueue + `], "pagination": {"limit": 100, "offset": 0}}`,
		"/api/v1/resources/namespaces":     `{"namespaces": [{"namespace": "x", "queues": 1, "partitions": 2, "messages": {"total": 10, "pending": 1}}]}`,
		"/api/v1/resources/tasks":          `{"tasks": [{"task": "x", "queues": 1, "partitions": 2, "messages": {"total": 10, "pending": 1}}]}`,
		"/api/v1/resources/queues/a%2Fb%25c": `{"id": "01000000-0000-0000-0000-000000000001", "name": "50% ☂", "namespace": "n", "task": "t",
			"createdAt": "2026-05-16T12:00:00.123Z", "paused": false, "totals": ` + oneCounts + `, "swept": ` + oneSwept + `, "pagination": {"limit": 10000, "next": "ü/"}, "partitions": [
			{"id": "02000000-0000-0000-0000-000000000002", "name": "a", "createdAt": "2026-05-16T12:00:00.123Z", "paused": false, "stats": ` + oneCounts + `,
			 "oldestMessage": "2026-05-16T12:00:00.123Z", "newestMessage": "2026-05-16T12:00:00.123Z"},
			{"id": "03000000-0000-0000-0000-000000000003", "name": "ü/", "createdAt": "2026-05-16T12:00:00.123Z", "paused": false, "stats": ` + noCounts + `,
			 "oldestMessage": null, "newestMessage": null}]}`,
		"/api/v1/status/queues/q": `{"queue": {"id": "01000000-0000-0000-0000-000000000001", "name": "50% ☂", "namespace": "n", "task": "t",
			 "priority": 6, "createdAt": "2026-05-16T12:00:00.123Z", "paused": false,
			 "config": {"leaseTime": 1, "retryLimit": 2, "retryDelay": 3, "ttl": 4, "maxQueueSize": 5, "deadLetterQueue": true},
			 "options": {"leaseTime": 1, "retryLimit": 2, "retryDelay": 3, "retryBackoff": 0, "retryDelayMax": 0, "ttl": 4, "maxSize": 5, "priority": 6, "deadLetterQueue": true, "dlqAfterMaxRetries": false,
			  "delayedProcessing": 0, "windowBuffer": 0, "encryptionEnabled": false, "retentionEnabled": false, "retentionSeconds": 0,
			  "completedRetentionSeconds": 0, "maxWaitTimeSeconds": 0, "expireAfterSeconds": 0, "deadLetterExpired": false, "maxDeliveries": 0, "tenantDelimiter": ""}},
			"swept": ` + oneSwept + `, "pagination": {"limit": 10000, "next": "ü/"}, "partitions": [
			{"id": "02000000-0000-0000-0000-000000000002", "name": "a", "createdAt": "2026-05-16T12:00:00.123Z", "paused": false, "messages": ` + oneCounts + `,
			 "stats": ` + oneCounts + `, "cursor": {"totalConsumed": 7, "batchesConsumed": 0, "totalExpired": 8}, "lastActivity": "2026-05-16T12:00:00.123Z",
			 "oldestMessage": "2026-05-16T12:00:00.123Z", "newestMessage": "2026-05-16T12:00:00.123Z"},
			{"id": "03000000-0000-0000-0000-000000000003", "name": "ü/", "createdAt": "2026-05-16T12:00:00.123Z", "paused": false, "messages": ` + noCounts + `,
			 "stats": ` + noCounts + `, "cursor": {"totalConsumed": 0, "batchesConsumed": 0, "totalExpired": 0}, "lastActivity": null,
			 "oldestMessage": null, "newestMessage": null}],
			"totals": {"messages": ` + oneCounts + `, ` + oneCounts[1:] + `}`,
		"/api/v1/status/sweeps": `{"sweeps": [{"job": "eviction", "running": true, "nextAt": "2026-05-16T12:00:00.123Z"}]}`,
	} {
		rec := apitest.Call(f, "GET", target, "")
		require.Equal(t, http.StatusOK, rec.Code, target)
		require.JSONEq(t, want, rec.Body.String(), target)
	}
	rec := apitest.Call(f, "GET", "/api/v1/resources/overview", "")
	require.Regexp(t, `^\{"queues":1,"partitions":2,"namespaces":3,"tasks":4,`+
		`"messages":\{"total":10,"pending":1,"processing":2,"completed":3,"failed":0,"deadLetter":4\},`+
		`"lag":\{"time":\{"avg":1,"median":2,"min":3,"max":4\},"offset":\{"avg":5,"median":6,"min":7,"max":8\}\},`+
		`"throughput":\{"ingestedPerSecond":0,"processedPerSecond":0\},"timestamp":"[-0-9T:.]+Z","statsAge":0\}$`, rec.Body.String())
}

func TestNoResourcesAreEmptyLists(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/api/v1/resources/queues":         `{"queues": []}`,
		"/api/v1/resources/namespaces":     `{"namespaces": []}`,
		"/api/v1/resources/tasks":          `{"tasks": []}`,
		"/api/v1/status/queues":            `{"queues": [], "pagination": {"limit": 100, "offset": 0}}`,
		"/api/v1/status/queues/q/messages": `[]`,
		"/api/v1/messages": `{"messages": [], "mode": {"hasQueueMode": false, "busGroupsCount": 0, "type": "none"},
			"pagination": {"limit": 200, "offset": 0, "next": null}}`,
	} {
		rec := apitest.Call(&apitest.Fakes{}, "GET", target, "")
		require.Equal(t, http.StatusOK, rec.Code, target)
		require.JSONEq(t, want, rec.Body.String(), target)
	}
}

func TestResourceQueryBecomesAFilter(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	apitest.Call(f, "GET", "/api/v1/status/queues?namespace=n%25&task=t&limit=7&offset=8", "")
	require.Equal(t, stats.QueueFilter{Namespace: "n%", Task: "t", Limit: 7, Offset: 8}, f.Resources.Filter)
	apitest.Call(f, "GET", "/api/v1/resources/queues?namespace=n&limit=7", "")
	require.Equal(t, stats.QueueFilter{}, f.Resources.Filter, "this list has no parameters")
	apitest.Call(f, "GET", "/api/v1/resources/queues/a%2Fb%25c?limit=3&cursor=%C3%BC", "")
	require.Equal(t, "a/b%c", f.Resources.QueueName)
	require.Equal(t, 3, f.Resources.Limit)
	require.Equal(t, "ü", *f.Resources.After)
	apitest.Call(f, "GET", "/api/v1/status/queues/%E2%98%82?limit=99999", "")
	require.Equal(t, "☂", f.Resources.QueueName)
	require.Equal(t, 10000, f.Resources.Limit)
	require.Nil(t, f.Resources.After)
}

func TestUnknownQueuesAreNotFound(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Resources: apitest.Resources{FailWith: &queue.Error{Code: queue.CodeNotFound, Message: "Queue not found"}}}
	for _, target := range []string{"/api/v1/resources/queues/q", "/api/v1/status/queues/q", "/api/v1/status/queues/q/messages"} {
		require.Equal(t, "Queue not found", apitest.RequireError(t, apitest.Call(f, "GET", target, ""), http.StatusNotFound), target)
	}
}

// messages returns n messages of a partition.
func messages(n int) []queue.Message {
	return slices.Repeat([]queue.Message{{Partition: &queue.Partition{}}}, n)
}

func TestOverviewShowsTheThroughputOfThisServer(t *testing.T) {
	t.Parallel()
	metrics := apitest.NewMetrics(prometheus.NewRegistry())
	s, _ := apitest.Server(&apitest.Fakes{Metrics: metrics})
	for range 3 {
		metrics.Pushed(make([]queue.PushItem, 40), make([]queue.PushResult, 40))
		metrics.Delivered(&queue.Delivery{LeaseID: apitest.IDOne, Messages: messages(5)})
		metrics.Delivered(&queue.Delivery{Messages: messages(4)})
		metrics.Acknowledged(make([]queue.AckItem, 3), []queue.AckResult{{Success: true}, {}, {Success: true, DeadLettered: true}})
	}
	metrics.Transacted(&queue.Transaction{Operations: []queue.Operation{{Push: &queue.PushItem{}}}},
		&queue.TransactionResult{Operations: []queue.OperationResult{{Push: &queue.PushResult{}}}})
	rec := apitest.SendOK(t, s, apitest.Request("GET", "/api/v1/resources/overview", ""))
	require.Contains(t, rec.Body.String(), `"throughput":{"ingestedPerSecond":2,"processedPerSecond":0.3}`)
}
