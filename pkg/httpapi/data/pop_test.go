package data_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// readQuery reads the parameters of a pop.
func readQuery(defaults queue.Defaults, query string) (*queue.PopRequest, error) {
	r := httptest.NewRequest("GET", "/api/v1/pop/queue/q", http.NoBody)
	r.URL.RawQuery = query
	h := &data.Handlers{Defaults: defaults}
	return h.PopRequest(echo.New().NewContext(r, httptest.NewRecorder()))
}

func TestPopParametersAreReadClampedOrDefaulted(t *testing.T) {
	t.Parallel()
	defaults := queue.DefaultDefaults()
	defaults.PopBatchSize = 5
	request := func(edit ...func(*queue.PopRequest)) *queue.PopRequest {
		req := &queue.PopRequest{Caller: "192.0.2.1", Group: queue.DefaultGroup, Batch: 5, Partitions: 1, Subscription: queue.Subscription{Mode: queue.SubscribeAll}}
		for _, e := range edit {
			e(req)
		}
		return req
	}
	batch := func(n int) func(*queue.PopRequest) { return func(r *queue.PopRequest) { r.Batch = n } }
	partitions := func(n int) func(*queue.PopRequest) { return func(r *queue.PopRequest) { r.Partitions = n } }
	wait := func(d time.Duration) func(*queue.PopRequest) { return func(r *queue.PopRequest) { r.Wait = d } }
	autoAck := func(r *queue.PopRequest) { r.AutoAck = true }
	for query, want := range map[string]*queue.PopRequest{
		"":                                  request(),
		"batch=7":                           request(batch(7)),
		"batch=7x":                          request(batch(7)),
		"batch=%207":                        request(batch(7)),
		"batch=%2B7":                        request(batch(7)),
		"batch=x":                           request(),
		"batch=":                            request(),
		"batch=-":                           request(),
		"batch=0":                           request(batch(1)),
		"batch=-5":                          request(batch(1)),
		"batch=7.9":                         request(batch(7)),
		"batch=10001":                       request(batch(10_000)),
		"batch=99999999999999999999":        request(),
		"xbatch=7":                          request(),
		"batch=7&batch=8":                   request(batch(7)),
		"partitions=4":                      request(partitions(4)),
		"partitions=0":                      request(partitions(1)),
		"partitions=1000":                   request(partitions(200)),
		"autoAck=true":                      request(autoAck),
		"autoAck=1":                         request(autoAck),
		"autoAck=TRUE":                      request(),
		"autoAck=yes":                       request(),
		"wait=true":                         request(wait(30 * time.Second)),
		"wait=1&timeout=1500":               request(wait(1500 * time.Millisecond)),
		"timeout=1500":                      request(),
		"wait=false&timeout=1500":           request(),
		"wait=true&timeout=0":               request(),
		"wait=true&timeout=-1":              request(),
		"wait=true&timeout=soon":            request(wait(30 * time.Second)),
		"wait=true&timeout=9999999999":      request(wait(10 * time.Minute)),
		"consumerGroup=":                    request(),
		"consumerGroup=a%20b%2Bc":           request(func(r *queue.PopRequest) { r.Group = "a b+c" }),
		"namespace=n&task=t":                request(),
		"a=%zz&batch=7":                     request(batch(7)),
		"subscriptionMode=new-only":         request(),
		"subscriptionMode=NEW":              request(),
		"subscriptionMode=all&autoAck=true": request(autoAck),
	} {
		req, err := readQuery(defaults, query)
		require.NoError(t, err, query)
		require.Equal(t, want, req, query)
	}
}

func TestInvalidConsumerGroupsAreRefused(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"consumerGroup=" + strings.Repeat("x", 256): "consumerGroup is 256 bytes long",
		"consumerGroup=%00":                         "consumerGroup contains a NUL",
		"consumerGroup=%ff":                         "consumerGroup is not UTF-8",
	} {
		_, err := readQuery(queue.DefaultDefaults(), query)
		apitest.RequireInvalid(t, err)
		require.ErrorContains(t, err, want)
	}
}

func TestSubscriptionFromHasPrecedenceOverMode(t *testing.T) {
	t.Parallel()
	at := func(text string) queue.Subscription {
		instant, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		return queue.Subscription{Mode: queue.SubscribeFrom, From: instant}
	}
	all, fresh := queue.Subscription{Mode: queue.SubscribeAll}, queue.Subscription{Mode: queue.SubscribeNew}
	for _, c := range []struct {
		serverMode, query string
		want              queue.Subscription
	}{
		{"", "", all},
		{"", "subscriptionMode=new", fresh},
		{"", "subscriptionFrom=now", fresh},
		{"", "subscriptionMode=all&subscriptionFrom=now", fresh},
		{"", "subscriptionMode=all&subscriptionFrom=NOW", fresh},
		{"", "subscriptionMode=new&subscriptionFrom=2026-05-16T08:41:27.5Z", at("2026-05-16T08:41:27.5Z")},
		{"", "subscriptionFrom=2026-05-16T08:41:27%2B02:00", at("2026-05-16T06:41:27Z")},
		{"", "subscriptionFrom=2026-05-16T08:41:27.123456", at("2026-05-16T08:41:27.123456Z")},
		{"", "subscriptionFrom=2026-05-16+08:41:27%2B02", at("2026-05-16T06:41:27Z")},
		{"", "subscriptionFrom=2026-05-16+08:41", at("2026-05-16T08:41:00Z")},
		{"", "subscriptionFrom=+2026-05-16+", at("2026-05-16T00:00:00Z")},
		{"", "subscriptionFrom=2026-05-16T08:41:27%2B0200", at("2026-05-16T06:41:27Z")},
		{"new", "", fresh},
		{"new", "subscriptionMode=all", all},
	} {
		defaults := queue.DefaultDefaults()
		defaults.SubscriptionMode = c.serverMode
		req, err := readQuery(defaults, c.query)
		require.NoError(t, err)
		require.Equal(t, c.want.Mode, req.Subscription.Mode, "%+v", c)
		require.True(t, c.want.From.Equal(req.Subscription.From), "%+v: %s", c, req.Subscription.From)
	}
}

func TestPopRoutesNameTheirQueue(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]struct {
		queue     string
		partition *string
		tags      *queue.Tags
	}{
		"/api/v1/pop/queue/orders?partitions=7":                   {"orders", nil, nil},
		"/api/v1/pop/queue/a%20b":                                 {"a b", nil, nil},
		"/api/v1/pop/queue/a%2Fb%2541":                            {"a/b%41", nil, nil},
		"/api/v1/pop/queue/a%2541":                                {"a%41", nil, nil},
		"/api/v1/pop/queue/%C3%BC":                                {"ü", nil, nil},
		"/api/v1/pop/queue/a+b":                                   {"a+b", nil, nil},
		"/api/v1/pop/queue/q/partition/p":                         {"q", new("p"), nil},
		"/api/v1/pop/queue/q%2Fr/partition/%2F%2520?partitions=7": {"q/r", new("/%20"), nil},
		"/api/v1/pop?namespace=n":                                 {"", nil, &queue.Tags{Namespace: "n"}},
		"/api/v1/pop?task=t":                                      {"", nil, &queue.Tags{Task: "t"}},
		"/api/v1/pop?namespace=n&task=t":                          {"", nil, &queue.Tags{Namespace: "n", Task: "t"}},
	} {
		f := &apitest.Fakes{}
		rec := apitest.Call(f, "GET", target, "")
		require.Equal(t, http.StatusNoContent, rec.Code, "%s: %s", target, rec.Body)
		require.Zero(t, rec.Body.Len(), "an empty pop has no body")
		require.Len(t, f.Popped, 1)
		require.Equal(t, want.queue, f.Popped[0].Queue, target)
		require.Equal(t, want.partition, f.Popped[0].Partition, target)
		require.Equal(t, want.tags, f.Popped[0].Tags, target)
		if want.partition != nil {
			require.Equal(t, 1, f.Popped[0].Partitions, "a pop from a named partition claims one partition")
		}
		require.Empty(t, f.Released, "no lease is released, because no message was delivered")
	}
}

func TestInvalidPopsAreRefused(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/api/v1/pop":                                         "namespace or task is required",
		"/api/v1/pop?namespace=&task=":                        "namespace or task is required",
		"/api/v1/pop?namespace=%00":                           "namespace contains a NUL",
		"/api/v1/pop?namespace=%ff":                           "namespace is not UTF-8",
		"/api/v1/pop?namespace=n&task=%00":                    "task contains a NUL",
		"/api/v1/pop?task=" + strings.Repeat("x", 256):        "task is 256 bytes long",
		"/api/v1/pop?consumerGroup=%ff&task=t":                "consumerGroup is not UTF-8",
		"/api/v1/pop/queue/%ff":                               "the queue in the path is not UTF-8",
		"/api/v1/pop/queue/%FF":                               "the queue in the path is not UTF-8",
		"/api/v1/pop/queue/a%00":                              "the queue in the path contains a NUL character",
		"/api/v1/pop/queue/q/partition/%00":                   "the partition in the path contains a NUL character",
		"/api/v1/pop/queue/" + strings.Repeat("x", 256):       "the queue in the path is 256 bytes long",
		"/api/v1/pop/queue/q?consumerGroup=%00":               "consumerGroup contains a NUL character",
		"/api/v1/pop/queue/q/partition/p?consumerGroup=a%00b": "consumerGroup contains a NUL character",
	} {
		f := &apitest.Fakes{}
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, "GET", target, ""), 400), want, target)
		require.False(t, f.Reached(), target)
	}
}

func TestBatchOfZeroFromOnePartitionIsEmpty(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	require.Equal(t, http.StatusNoContent, apitest.Call(f, "GET", "/api/v1/pop/queue/q/partition/p?batch=0", "").Code)
	require.Empty(t, f.Popped)
	apitest.Call(f, "GET", "/api/v1/pop/queue/q?batch=0", "")
	require.Equal(t, 1, f.Popped[0].Batch, "a pop from any partition has a batch of one")
}

// The answer of a pop has the members of Queen MQ. The payload has the bytes of the push, instants are in UTC with
// microseconds, and absent values are null. The answer repeats the partition and the lease of the first message.
func TestPopResponseBody(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 10, 41, 27, 123456789, time.FixedZone("", 7200))
	first := &queue.Partition{ID: apitest.IDOne, Name: `p "1"`}
	second := &queue.Partition{ID: apitest.IDTwo, Name: "p2"}
	const payload = `{ "b":1.50,  "a":"\u00fc\/" }`
	f := &apitest.Fakes{Pop: apitest.Deliver(queue.Delivery{
		Queue: "orders", Group: "g", LeaseID: apitest.IDThree, Partitions: 2,
		Messages: []queue.Message{
			{Partition: first, ID: apitest.IDOne, TransactionID: "t1", TraceID: apitest.IDTwo, Payload: json.RawMessage(payload), ProducerSub: "me", CreatedAt: at, Attempt: 2},
			{Partition: second, ID: apitest.IDTwo, TransactionID: "t2", Payload: json.RawMessage("null"), CreatedAt: at.Add(time.Second)},
		},
	})}
	rec := apitest.Call(f, "GET", "/api/v1/pop/queue/orders", "")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Contains(t, rec.Body.String(), `"data":`+payload+`,`, "byte for byte")
	one, two, three := apitest.IDOne.String(), apitest.IDTwo.String(), apitest.IDThree.String()
	require.JSONEq(t, `{"success":true,"queue":"orders","partition":"p \"1\"","partitionId":"`+one+`","leaseId":"`+three+`",
		"consumerGroup":"g","partitionsClaimed":2,"messages":[
		{"id":"`+one+`","transactionId":"t1","traceId":"`+two+`","data":`+payload+`,"producerSub":"me",
		 "createdAt":"2026-05-16T08:41:27.123456Z","partitionId":"`+one+`","partition":"p \"1\"","leaseId":"`+three+`","consumerGroup":"g","attempt":2},
		{"id":"`+two+`","transactionId":"t2","traceId":null,"data":null,"producerSub":null,
		 "createdAt":"2026-05-16T08:41:28.123456Z","partitionId":"`+two+`","partition":"p2","leaseId":"`+three+`","consumerGroup":"g","attempt":0}
	]}`, rec.Body.String())
	require.Empty(t, f.Released, "no lease is released, because the messages were delivered")
}

func TestAutoAckHasNoLease(t *testing.T) {
	t.Parallel()
	d := apitest.OneMessage()
	d.LeaseID = queue.ID{}
	rec := apitest.Call(&apitest.Fakes{Pop: apitest.Deliver(d)}, "GET", "/api/v1/pop/queue/orders?autoAck=true", "")
	require.Equal(t, 2, strings.Count(rec.Body.String(), `"leaseId":""`), rec.Body)
}

// An invalid subscriptionFrom is an error. A start at the first message instead would deliver messages
// that the consumer wants to exclude.
func TestInvalidSubscriptionFromIsRefused(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"yesterday", "1747384887", "garbage", "2026-13-45", "now-ish"} {
		_, err := readQuery(queue.DefaultDefaults(), "subscriptionMode=new&subscriptionFrom="+from)
		apitest.RequireInvalid(t, err)
		require.ErrorContains(t, err, "subscriptionFrom is \""+from+"\": it must be \"now\" or a timestamp like 2026-05-16T08:41:27.123Z")
	}
}
