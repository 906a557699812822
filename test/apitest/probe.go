package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// SmallBody is the body limit in bytes of fuzzed servers. Some fuzzed bodies exceed it.
const SmallBody = 4096

// Probe is a server whose fakes accept every call.
type Probe struct {
	*Fakes
	Server   *httpapi.Server
	logs     *observer.ObservedLogs
	extended []time.Duration
}

// NewProbe returns a server with the body limit SmallBody.
func NewProbe() *Probe {
	p := &Probe{Fakes: &Fakes{}}
	p.Push = func(items []queue.PushItem) ([]queue.PushResult, error) {
		results := make([]queue.PushResult, len(items))
		for i := range items {
			results[i] = queue.PushResult{
				Duplicate: i%2 == 1, MessageID: IDOne, PartitionID: IDTwo, TransactionID: items[i].TransactionID,
			}
		}
		return results, nil
	}
	p.Ack = func(items []queue.AckItem) ([]queue.AckResult, error) {
		results := make([]queue.AckResult, len(items))
		for i := range items {
			results[i] = queue.AckResult{Success: i%2 == 0, Resolved: i%2 == 0, Error: items[i].Error, Queue: items[i].Group}
		}
		return results, nil
	}
	p.Extend = func(_ queue.ID, d time.Duration) (time.Time, error) {
		p.extended = append(p.extended, d)
		return time.Unix(0, 0).Add(d), nil
	}
	p.Pop = func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
		partition := &queue.Partition{ID: IDTwo, Name: "Default"}
		if req.Partition != nil {
			partition.Name = *req.Partition
		}
		return queue.Delivery{
			Queue: req.Queue, Group: req.Group, LeaseID: IDThree, Partitions: 1,
			Messages: []queue.Message{{Partition: partition, ID: IDOne, TransactionID: "t", Payload: json.RawMessage("{}")}},
		}, nil
	}
	p.Server, p.logs = Server(p.Fakes, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MaxBodyBytes = SmallBody })
	return p
}

// FuzzRequest returns the request that net/http passes to a server, or nil for a
// target that net/http refuses.
func FuzzRequest(method, target string, body []byte) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	r := httptest.NewRequest(method, "/", http.NoBody)
	r.URL, r.RequestURI, r.Body, r.ContentLength = u, target, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

// hints are texts that tell the client what to change. Each error contains at least one of them.
var hints = []string{
	"Invalid JSON: ", "Empty request body", "the body ", "items", "Queue must", "Partition must", "TransactionId must", "TraceId must",
	"transactionId", "partitionId", "acknowledgments", "operations", "requiredLeases", "queue", "namespace", "task", "options", "seconds", "consumerGroup",
	"toEnd", "timestamp", "Timestamp", "minLagSeconds", "subscriptionFrom", "toBeginning", "in the path", "Lease not found", "Message not found",
	"status", "from is", "to is", "cursor is", "offset", "from must", "to must", "say which", "all must",
	"dryRun must", "rate ", "partition", "error must", "traceNames", "eventType", "data is required", "pg_dump",
	"query_id", "partition_id", "name ", "source_queue", "config_hash", "allow_any_json", "half of a surrogate pair", "reset ", "keys", "key_prefix", "ripe_at", "state_ops", "push_items", "ack", "release_lease", "consumer_group", "enabled (boolean)", "no such endpoint: ", "is not allowed on ",
	"token ", "token must", "id must", "kind must", "role must", "subject must", "role is", "kind is", "subject ", "ttlSeconds ", "grants: ",
	"payload is required", "the member ", "cron must", "every must", "at must", "starts must", "ends must", "jitter must", "zone must", "missed must", "paused must", "headers", "action is",
}

// Ask sends one request and checks the answer and the calls of the fakes.
func (p *Probe) Ask(t *testing.T, r *http.Request) {
	t.Helper()
	p.DeadLetters, p.Traces, p.Schedules = DeadLetters{}, Traces{}, Schedules{Old: anySchedule()}
	p.Pushed, p.Acked, p.Popped, p.Transactions, p.Configured, p.Deleted, p.Released, p.GroupCalls = nil, nil, nil, nil, nil, nil, nil, nil
	p.extended, p.Queries, p.Rights = nil, nil, RightsCalls{}
	rec := Send(p.Server, r)
	for _, entry := range p.logs.TakeAll() {
		require.Fail(t, "a request caused a log line", "%s %v", entry.Message, entry.ContextMap())
	}
	require.Contains(t, []int{200, 201, 204, 400, 404, 405, 413, 501}, rec.Code, rec.Body)
	switch kind := rec.Header().Get("Content-Type"); {
	case rec.Code == http.StatusNoContent:
		require.Zero(t, rec.Body.Len())
	case kind == "text/event-stream":
		require.True(t, r.URL.Path == "/api/v1/events" || strings.HasPrefix(r.URL.Path, "/api/v1/sse/"), r.URL.Path)
		require.True(t, utf8.Valid(rec.Body.Bytes()), "%q", rec.Body)
	case strings.HasPrefix(kind, "text/plain"):
		require.Equal(t, "/metrics/prometheus", r.URL.Path)
	default:
		require.Equal(t, "application/json", kind)
		require.True(t, json.Valid(rec.Body.Bytes()), "%q", rec.Body)
		require.True(t, utf8.Valid(rec.Body.Bytes()), "%q", rec.Body)
	}
	if rec.Code >= 400 {
		require.False(t, p.Reached(), "a refused request must not reach a fake")
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
		"the error does not say what to change: %q", answer.Error)
}

// requireStorable checks that Postgres can store every text that reached a fake. Postgres refuses a text with a NUL or with
// invalid UTF-8. Such a text makes the whole statement fail, with all calls that share it.
func (p *Probe) requireStorable(t *testing.T) {
	t.Helper()
	texts := slices.Concat(p.Deleted, p.DeadLetters.Texts, p.Traces.Texts, p.Schedules.Texts)
	for _, call := range p.GroupCalls {
		RequireName(t, call.Group)
		RequireName(t, call.Queue)
		RequireName(t, call.Partition)
	}
	pushed, acked := slices.Clone(p.Pushed), slices.Clone(p.Acked)
	for _, q := range p.Queries {
		for _, name := range []string{q.Source, q.Name, q.Sink, q.Hash} {
			RequireName(t, name)
		}
	}
	for _, tx := range p.Transactions {
		if tx.Cycle != nil {
			for _, k := range tx.Cycle.Changes {
				texts = append(texts, k.Key)
				require.True(t, k.Value == nil || json.Valid(k.Value))
			}
		}
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
			RequireName(t, item.Queue)
			RequireName(t, item.Partition)
		}
	}
	for _, items := range acked {
		for _, item := range items {
			require.NotEmpty(t, item.Group)
			texts = append(texts, item.TransactionID, item.Group, item.Error)
		}
	}
	for _, req := range p.Popped {
		texts = append(texts, req.Queue, req.Group)
		if req.Partition != nil {
			texts = append(texts, *req.Partition)
		}
		if req.Tags != nil {
			require.NotZero(t, *req.Tags)
			texts = append(texts, req.Tags.Namespace, req.Tags.Task)
		}
		require.True(t, 1 <= req.Batch && req.Batch <= 10_000 && 1 <= req.Partitions && req.Partitions <= 200)
	}
	for _, set := range p.Configured {
		RequireOptions(t, set)
	}
	for _, d := range p.extended {
		require.True(t, time.Second <= d && d <= 7*24*time.Hour, "%s", d)
	}
	for _, text := range texts {
		require.True(t, utf8.ValidString(text), "%q", text)
		require.NotContains(t, text, "\x00")
	}
}

// RequireOptions checks the limits of names and options.
func RequireOptions(t *testing.T, set catalog.Settings) {
	t.Helper()
	for _, name := range []string{set.Queue, set.Namespace, set.Task} {
		RequireName(t, name)
	}
	o := set.Options
	for _, n := range []int64{
		o.LeaseTime, o.RetryLimit, o.DelayedProcessing, o.WindowBuffer, o.RetentionSeconds,
		o.CompletedRetentionSeconds, o.MaxWaitTimeSeconds, o.MaxSize, o.RetryDelay, o.TTL,
	} {
		require.True(t, 0 <= n && n <= math.MaxInt32, "%d", n)
	}
	require.True(t, -math.MaxInt32 <= o.Priority && o.Priority <= math.MaxInt32, "%d", o.Priority)
}

// RequireName checks that a name can be stored.
func RequireName(t *testing.T, name string) {
	t.Helper()
	require.LessOrEqual(t, len(name), queue.MaxNameBytes)
	require.NotContains(t, name, "\x00")
	require.True(t, utf8.ValidString(name))
}

// Seed adds bodies and brokenBodies to the corpus of f. Every parser must refuse or accept brokenBodies without a panic.
func Seed(f *testing.F, bodies ...string) {
	f.Helper()
	for _, body := range append(bodies, brokenBodies...) {
		f.Add([]byte(body))
	}
}

// brokenBodies are small bodies. Some are invalid JSON, and others are at the limit of the syntax.
var brokenBodies = []string{
	"", " ", "\n", "{", "}", "[", "null", "true", "0", `""`, "{}", "[]", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{}x`, `{} {}`,
	"\ufeff{}", `{"":{}}`, `{"\ud800":1}`, `{"a":"\ud800\udc00\ud800"}`, `{"a":1e999}`, `{"a":-}`,
}
