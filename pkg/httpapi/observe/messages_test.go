package observe_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/test/apitest"
)

// someToken is a valid cursor.
const someToken = "AAY1PZYPQgAAAAAAAAAABwAAAAAAAAAI"

func TestMessagesHaveTheShapeOfQueenMQ(t *testing.T) {
	t.Parallel()
	next, err := stats.ParsePosition(someToken)
	require.NoError(t, err)
	f := &apitest.Fakes{Resources: apitest.Resources{Messages: stats.MessageList{
		Next: &next, Mode: stats.Mode{QueueMode: true, Groups: 2},
		Messages: []stats.Message{
			{
				ID: apitest.IDOne, TransactionID: "50% ☂", TraceID: apitest.IDThree, ProducerSub: "me", CreatedAt: atNoon, Queue: "q", Namespace: "n", Task: "t",
				Priority: 5, PartitionID: apitest.IDTwo, Partition: "p", Status: stats.StatusProcessing, QueueStatus: stats.StatusProcessing,
				Groups: 2, DoneBy: 1, LeasedUntil: atNoon,
			},
			{ID: apitest.IDTwo, PartitionID: apitest.IDOne, CreatedAt: atNoon, Status: stats.StatusPending, QueueStatus: stats.StatusPending},
		},
	}}}
	rec := apitest.Call(f, "GET", "/api/v1/messages?limit=2", "")
	require.Equal(t, http.StatusOK, rec.Code)
	require.JSONEq(t, `{"messages": [
		{"id": "01000000-0000-0000-0000-000000000001", "transactionId": "50% ☂", "partitionId": "02000000-0000-0000-0000-000000000002",
		 "queuePath": "q/p", "queue": "q", "partition": "p", "namespace": "n", "task": "t", "status": "processing",
		 "queueStatus": "processing", "busStatus": {"consumedBy": 1, "totalGroups": 2},
		 "traceId": "03000000-0000-0000-0000-000000000003", "producerSub": "me", "queuePriority": 5,
		 "createdAt": "2026-05-16T12:00:00.123Z", "leaseExpiresAt": "2026-05-16T12:00:00.123Z"},
		{"id": "02000000-0000-0000-0000-000000000002", "transactionId": "", "partitionId": "01000000-0000-0000-0000-000000000001",
		 "queuePath": "/", "queue": "", "partition": "", "namespace": "", "task": "", "status": "pending", "queueStatus": "pending",
		 "busStatus": {"consumedBy": 0, "totalGroups": 0}, "traceId": null, "producerSub": null, "queuePriority": 0,
		 "createdAt": "2026-05-16T12:00:00.123Z", "leaseExpiresAt": null}],
		"mode": {"hasQueueMode": true, "busGroupsCount": 2, "type": "hybrid"},
		"pagination": {"limit": 2, "offset": 0, "next": "`+someToken+`"}}`, rec.Body.String())

	rec = apitest.Call(f, "GET", "/api/v1/status/queues/q/messages?limit=2", "")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, someToken, rec.Header().Get("X-Next-Cursor"))
	require.JSONEq(t, `[
		{"id": "01000000-0000-0000-0000-000000000001", "transactionId": "50% ☂", "partitionId": "02000000-0000-0000-0000-000000000002",
		 "queuePath": "q/p", "queue": "q", "partition": "p", "status": "processing", "createdAt": "2026-05-16T12:00:00.123Z"},
		{"id": "02000000-0000-0000-0000-000000000002", "transactionId": "", "partitionId": "01000000-0000-0000-0000-000000000001",
		 "queuePath": "/", "queue": "", "partition": "", "status": "pending", "createdAt": "2026-05-16T12:00:00.123Z"}]`, rec.Body.String())
}

func TestMessageQueryBecomesAFilter(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	apitest.Call(f, "GET", "/api/v1/messages?queue=a%2Fb&partition=%25&ns=n&task=t&status=dead_letter&limit=7&offset=8&cursor="+someToken+
		"&from=2026-05-16T08:00:00.5Z&to=2026-05-16T09:00:30Z", "")
	queueName, partition := "a/b", "%"
	after, err := stats.ParsePosition(someToken)
	require.NoError(t, err)
	require.Equal(t, stats.MessageFilter{
		Queue: &queueName, Partition: &partition, Namespace: "n", Task: "t", Status: stats.StatusDeadLetter,
		From: time.Date(2026, 5, 16, 8, 0, 0, 500_000_000, time.UTC), To: time.Date(2026, 5, 16, 9, 0, 59, 999_999_000, time.UTC),
		Limit: 7, Offset: 8, After: &after,
	}, f.Resources.MessagesBy)

	before := time.Now().Add(-time.Hour)
	apitest.Call(f, "GET", "/api/v1/messages?queue=&partition=&ns=&namespace=other&task=&status=&from=&to=&cursor=&limit=99999", "")
	got := f.Resources.MessagesBy
	require.WithinRange(t, got.From, before, time.Now().Add(-time.Hour))
	got.From = time.Time{}
	require.Equal(t, stats.MessageFilter{Namespace: "other", Limit: 1000}, got, "an empty parameter counts as absent, and the span has no end")

	apitest.Call(f, "GET", "/api/v1/messages?to=2026-05-16T09:00", "")
	require.Equal(t, time.Hour, f.Resources.MessagesBy.To.Sub(f.Resources.MessagesBy.From), "the span begins an hour before to")

	apitest.Call(f, "GET", "/api/v1/status/queues/a%25b/messages?offset=3&cursor="+someToken, "")
	queueName = "a%b"
	require.Equal(t, stats.MessageFilter{Queue: &queueName, Limit: 50, Offset: 3, After: &after}, f.Resources.MessagesBy, "the list covers all ages")
}

func TestInvalidMessageQueriesAreRefused(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"status=done":    `status is "done": it must be pending, processing, completed or dead_letter`,
		"from=yesterday": `from is "yesterday": it must be an instant such as 2026-05-16T08:41:27.123Z`,
		"to=2026-13-01":  `to is "2026-13-01": it must be an instant such as 2026-05-16T08:41:27.123Z`,
		"from=2026-05-16T08:00&to=2026-05-16T07:00": "to is before from: swap them",
		"offset=10001":                      "offset is 10001: at most 10000 is allowed; send pagination.next of an earlier answer as cursor, or select fewer rows",
		"cursor=x":                          "cursor is not one that an earlier answer gave as next: send that text unchanged",
		"queue=" + strings.Repeat("x", 256): "queue is 256 bytes long: at most 255 are allowed",
		"partition=%00":                     "partition contains a NUL character: remove it",
		"ns=%FF":                            "ns is not UTF-8",
		"task=%FF":                          "task is not UTF-8",
	} {
		f := &apitest.Fakes{}
		text := apitest.RequireError(t, apitest.Call(f, "GET", "/api/v1/messages?"+query, ""), http.StatusBadRequest)
		require.Equal(t, want, text, query)
		require.Equal(t, stats.MessageFilter{}, f.Resources.MessagesBy, "a refused request must not reach the database")
	}
	for _, target := range []string{
		"/api/v1/status/queues?namespace=%FF", "/api/v1/status/queues?task=%00", "/api/v1/status/queues?offset=10001",
		"/api/v1/status/queues/q?cursor=%FF", "/api/v1/status/queues/%FF", "/api/v1/status/queues/q/messages?cursor=" + url.QueryEscape("=="),
		"/api/v1/status/queues/q/messages?offset=10001", "/api/v1/status/queues/%00/messages", "/api/v1/resources/queues/%00",
	} {
		apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, "GET", target, ""), http.StatusBadRequest)
	}
}
