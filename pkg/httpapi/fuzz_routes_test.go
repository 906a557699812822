package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// smallBody is the body limit of fuzzed servers, so that the limit is met.
const smallBody = 4096

// probe is a server whose rooms below answer everything, and what reached them.
type probe struct {
	*fakes
	server   *Server
	logs     *observer.ObservedLogs
	extended []time.Duration
}

func newProbe() *probe {
	p := &probe{fakes: &fakes{}}
	p.push = func(items []queue.PushItem) ([]queue.PushResult, error) {
		results := make([]queue.PushResult, len(items))
		for i := range items {
			results[i] = queue.PushResult{
				Duplicate: i%2 == 1, MessageID: idOne, PartitionID: idTwo, TransactionID: items[i].TransactionID,
			}
		}
		return results, nil
	}
	p.ack = func(items []queue.AckItem) ([]queue.AckResult, error) {
		results := make([]queue.AckResult, len(items))
		for i := range items {
			results[i] = queue.AckResult{Success: i%2 == 0, Resolved: i%2 == 0, Error: items[i].Error, Queue: items[i].Group}
		}
		return results, nil
	}
	p.extend = func(_ queue.ID, d time.Duration) (time.Time, error) {
		p.extended = append(p.extended, d)
		return time.Unix(0, 0).Add(d), nil
	}
	p.pop = func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
		partition := &queue.Partition{ID: idTwo, Name: "Default"}
		if req.Partition != nil {
			partition.Name = *req.Partition
		}
		return queue.Delivery{
			Queue: req.Queue, Group: req.Group, LeaseID: idThree, Partitions: 1,
			Messages: []queue.Message{{Partition: partition, ID: idOne, TransactionID: "t", Payload: json.RawMessage("{}")}},
		}, nil
	}
	p.server, p.logs = newServer(p.fakes)
	p.server.cfg.MaxBodyBytes = smallBody
	return p
}

// routeOf is one method and pattern of the API.
type routeOf struct{ method, path string }

// everyRoute lists what is registered, so that a new route is fuzzed as well.
func everyRoute(tb testing.TB, s *Server) []routeOf {
	tb.Helper()
	e, ok := s.Handler().(*echo.Echo)
	require.True(tb, ok)
	var routes []routeOf
	for _, r := range e.Routes() {
		if r.Method != echo.RouteNotFound {
			routes = append(routes, routeOf{r.Method, r.Path})
		}
	}
	slices.SortFunc(routes, func(a, b routeOf) int { return strings.Compare(a.path+" "+a.method, b.path+" "+b.method) })
	return routes
}

// target puts texts in the places of a pattern's parameters, as they are.
func (r routeOf) target(one, two, query string) string {
	path := strings.NewReplacer(":group", one, ":queue", one, ":leaseId", one, ":name", one, ":partitionId", one, ":transactionId", two,
		":partition", two).Replace(r.path)
	if query != "" {
		path += "?" + query
	}
	return path
}

// request makes what net/http would hand to the server, or nil where it refuses
// by itself.
func request(method, target string, body []byte) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	r := httptest.NewRequest(method, "/", http.NoBody)
	r.URL, r.RequestURI, r.Body, r.ContentLength = u, target, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

// hints are words of which an error names at least one: what to change.
var hints = []string{
	"Invalid JSON: ", "Empty request body", "the body ", "items", "Queue must", "Partition must", "TransactionId must", "TraceId must",
	"transactionId", "partitionId", "acknowledgments", "operations", "requiredLeases", "queue", "namespace", "task", "options", "seconds", "consumerGroup",
	"toEnd", "timestamp", "Timestamp", "minLagSeconds", "subscriptionFrom", "toBeginning", "in the path", "Lease not found", "Message not found",
	"status", "from is", "to is", "cursor is", "offset", "from must", "to must", "say which", "all must",
	"dryRun must", "rate ", "partition", "error must", "traceNames", "eventType", "data is required", "no such endpoint: ", "is not allowed on ",
}

// ask sends one request and checks the answer and what reached the rooms below.
func (p *probe) ask(t *testing.T, r *http.Request) {
	t.Helper()
	p.dead, p.traces = letterFake{}, traceFake{}
	p.pushed, p.acked, p.popped, p.sent, p.set, p.removed, p.released, p.extended = nil, nil, nil, nil, nil, nil, nil, nil
	p.groups = nil
	rec := send(p.server, r)
	for _, entry := range p.logs.TakeAll() {
		require.Fail(t, "nothing is worth a log line", "%s %v", entry.Message, entry.ContextMap())
	}
	require.Contains(t, []int{200, 201, 204, 400, 404, 405, 413}, rec.Code, rec.Body)
	switch kind := rec.Header().Get("Content-Type"); {
	case rec.Code == http.StatusNoContent:
		require.Zero(t, rec.Body.Len())
	case strings.HasPrefix(kind, "text/plain"):
		require.Equal(t, "/metrics/prometheus", r.URL.Path)
	default:
		require.Equal(t, "application/json", kind)
		require.True(t, json.Valid(rec.Body.Bytes()), "%q", rec.Body)
		require.True(t, utf8.Valid(rec.Body.Bytes()), "%q", rec.Body)
	}
	if rec.Code >= 400 {
		require.False(t, p.reached(), "what is refused reaches nobody")
		requireHint(t, rec.Body.Bytes())
	}
	p.requireStorable(t)
}

func requireHint(t *testing.T, body []byte) {
	t.Helper()
	var answer struct {
		Error string `json:"error"`
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	require.True(t, slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(answer.Error, hint) }),
		"it does not say what to change: %q", answer.Error)
}

// requireStorable checks that what reached the rooms below is what they can take:
// Postgres refuses text with a NUL or that is no UTF-8, for all who share a
// statement.
func (p *probe) requireStorable(t *testing.T) {
	t.Helper()
	texts := slices.Concat(p.removed, p.dead.texts, p.traces.texts)
	for _, call := range p.groups {
		requireName(t, call.group)
		requireName(t, call.queue)
		requireName(t, call.partition)
	}
	pushed, acked := slices.Clone(p.pushed), slices.Clone(p.acked)
	for _, tx := range p.sent {
		require.LessOrEqual(t, len(tx.Operations), queue.MaxOperations)
		for _, op := range tx.Operations {
			if op.Push != nil {
				pushed = append(pushed, []queue.PushItem{*op.Push})
			} else {
				acked = append(acked, []queue.AckItem{*op.Ack})
			}
		}
	}
	for _, items := range pushed {
		for _, item := range items {
			require.True(t, json.Valid(item.Payload))
			texts = append(texts, item.TransactionID)
			requireName(t, item.Queue)
			requireName(t, item.Partition)
		}
	}
	for _, items := range acked {
		for _, item := range items {
			require.NotEmpty(t, item.Group)
			texts = append(texts, item.TransactionID, item.Group, item.Error)
		}
	}
	for _, req := range p.popped {
		texts = append(texts, req.Queue, req.Group)
		if req.Partition != nil {
			texts = append(texts, *req.Partition)
		}
		if req.Tags != nil {
			require.NotZero(t, *req.Tags)
			texts = append(texts, req.Tags.Namespace, req.Tags.Task)
		}
		require.True(t, 1 <= req.Batch && req.Batch <= maxBatch && 1 <= req.Partitions && req.Partitions <= maxPartitions)
	}
	for _, set := range p.set {
		requireOptions(t, set)
	}
	for _, d := range p.extended {
		require.True(t, time.Second <= d && d <= extendMax, "%s", d)
	}
	for _, text := range texts {
		require.True(t, utf8.ValidString(text), "%q", text)
		require.NotContains(t, text, "\x00")
	}
}

func requireOptions(t *testing.T, set catalog.Settings) {
	t.Helper()
	for _, name := range []string{set.Queue, set.Namespace, set.Task} {
		requireName(t, name)
	}
	o := set.Options
	for _, n := range []int64{
		o.LeaseTime, o.RetryLimit, o.DelayedProcessing, o.WindowBuffer, o.RetentionSeconds,
		o.CompletedRetentionSeconds, o.MaxWaitTimeSeconds, o.MaxSize, o.RetryDelay, o.TTL,
	} {
		require.True(t, 0 <= n && n <= maxOption, "%d", n)
	}
	require.True(t, -maxOption <= o.Priority && o.Priority <= maxOption, "%d", o.Priority)
}

// FuzzRoutes sends any request to any route.
func FuzzRoutes(f *testing.F) {
	p := newProbe()
	routes := everyRoute(f, p.server)
	bodies := []string{
		"", onePush, `{"transactionId":"t","partitionId":"p"}`, `{"acknowledgments":[{"transactionId":"t","partitionId":"p"}]}`,
		`{"toEnd":true}`, `{"timestamp":"2026-05-16","subscriptionTimestamp":"2026-05-16"}`, `{"toEnd":1}`,
		`{"seconds":60}`, `{"queue":"q"}`, oneTransaction, `{"items":[{"queue":1}]}`, strings.Repeat(" ", smallBody+1),
	}
	for i := range routes {
		for _, body := range bodies {
			f.Add(byte(i), "q", "Default", "batch=7&consumerGroup=g&namespace=n", []byte(body))
		}
		f.Add(byte(i), idOne.String(), "p%2Fq", "wait=1&timeout=5&task=%00", []byte(`{"seconds":0}`))
		f.Add(byte(i), "%ff", "%zz", "consumerGroup=%00&task=%ff", []byte("\xff"))
		f.Add(byte(i), "a/b", "", "namespace=%00", []byte("{"))
	}
	f.Fuzz(func(t *testing.T, route byte, one, two, query string, body []byte) {
		at := routes[int(route)%len(routes)]
		if r := request(at.method, at.target(one, two, query), body); r != nil {
			p.ask(t, r)
		}
	})
}

// FuzzAck sends any body to the route of one ack.
func FuzzAck(f *testing.F) {
	seed(f, `{"transactionId":"t","partitionId":"p","status":"failed","leaseId":"l","error":"e","consumerGroup":"g"}`,
		`{"transactionId":"\u0000","partitionId":"\ud800","error":"\u0000","consumerGroup":"\u0000"}`,
		`{"transactionId":1,"partitionId":"p"}`, `{"transactionId":"t"}`, `{"status":null,"transactionId":"t","partitionId":""}`,
	)
	p := newProbe()
	f.Fuzz(func(t *testing.T, body []byte) { p.ask(t, request("POST", "/api/v1/ack", body)) })
}

// FuzzTransaction sends any body to the route of transactions.
func FuzzTransaction(f *testing.F) {
	seed(f, oneTransaction, `{"operations":[{"type":"push","queue":"q","data":1},{"type":"merge"}]}`,
		`{"operations":[{"type":"push","items":[{"queue":"\u0000","payload":null},7]}],"requiredLeases":["",null,"x"]}`,
		`{"operations":[{"type":"ack","transactionId":"\u0000","partitionId":"p","error":"\u0000","consumerGroup":"\u0000"}]}`,
		`{"operations":[{"type":7}]}`, `{"operations":[],"requiredLeases":{}}`,
	)
	p := newProbe()
	f.Fuzz(func(t *testing.T, body []byte) { p.ask(t, request("POST", "/api/v1/transaction", body)) })
}

// FuzzExtend sends any body to the route that extends a lease.
func FuzzExtend(f *testing.F) {
	seed(f, `{"seconds":60}`, `{"seconds":null}`, `{"seconds":0}`, `{"seconds":604800}`, `{"seconds":604801}`, `{"seconds":3e2}`,
		`{"seconds":1.5}`, `{"seconds":-1e400}`, `{"seconds":"60"}`, `{"seconds":9223372036854775808}`, `{"seconds":[],"seconds":1}`,
	)
	p := newProbe()
	f.Fuzz(func(t *testing.T, body []byte) {
		p.ask(t, request("POST", "/api/v1/lease/"+idOne.String()+"/extend", body))
	})
}
