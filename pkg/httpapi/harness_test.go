package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	idOne   = queue.ID{0x01, 15: 0x01}
	idTwo   = queue.ID{0x02, 15: 0x02}
	idThree = queue.ID{0x03, 15: 0x03}
)

// fakes stand in for the rooms below: what a field does not say is answered
// with something harmless, and what came is kept.
type fakes struct {
	push      func(items []queue.PushItem) ([]queue.PushResult, error)
	ack       func(items []queue.AckItem) ([]queue.AckResult, error)
	extend    func(lease queue.ID, d time.Duration) (time.Time, error)
	transact  func(tx *queue.Transaction) (queue.TransactionResult, error)
	pop       func(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error)
	configure func(set catalog.Settings) (catalog.Configured, error)
	remove    func(name string) (bool, error)
	seek      func(call groupCall) (catalog.SoughtPartition, int64, error)
	list      []stats.Group
	places    []stats.QueueProgress
	lagging   []stats.LaggingPartition
	ping      func(ctx context.Context) error
	waiting   int
	status    dispatch.Status
	listener  ListenerState
	inbox     *InboxState
	shelf     shelf

	dead   letterFake
	traces traceFake

	pushed   [][]queue.PushItem
	acked    [][]queue.AckItem
	popped   []*queue.PopRequest
	sent     []*queue.Transaction
	released []queue.Delivery
	set      []catalog.Settings
	removed  []string
	groups   []groupCall
}

// groupCall is one call about consumer groups that came.
type groupCall struct {
	verb, group, queue, partition string

	keep  bool
	start time.Time
	place catalog.Place
	over  time.Duration
	limit int
}

func (f *fakes) DeleteGroup(_ context.Context, group string, queueName *string, keep bool) (catalog.DeletedGroup, error) {
	call := groupCall{verb: "delete", group: group, keep: keep}
	if queueName != nil {
		call.verb, call.queue = "delete of queue", *queueName
	}
	f.groups = append(f.groups, call)
	return catalog.DeletedGroup{Cursors: 7}, nil
}

func (f *fakes) MoveSubscription(_ context.Context, group string, start time.Time) (int64, error) {
	f.groups = append(f.groups, groupCall{verb: "subscription", group: group, start: start})
	return 2, nil
}

func (f *fakes) Seek(_ context.Context, queueName, group string, place catalog.Place) (int64, error) {
	call := groupCall{verb: "seek", group: group, queue: queueName, place: place}
	f.groups = append(f.groups, call)
	if f.seek != nil {
		_, moved, err := f.seek(call)
		return moved, err
	}
	return 3, nil
}

func (f *fakes) SeekPartition(_ context.Context, queueName, group, partition string, place catalog.Place) (catalog.SoughtPartition, error) {
	call := groupCall{verb: "seek partition", group: group, queue: queueName, partition: partition, place: place}
	f.groups = append(f.groups, call)
	if f.seek != nil {
		sought, _, err := f.seek(call)
		return sought, err
	}
	return catalog.SoughtPartition{Moved: true, Message: idOne}, nil
}

func (f *fakes) List(context.Context) ([]stats.Group, error) { return f.list, nil }

func (f *fakes) Group(_ context.Context, name string, limit int) ([]stats.QueueProgress, error) {
	f.groups = append(f.groups, groupCall{verb: "show", group: name, limit: limit})
	return f.places, nil
}

func (f *fakes) Lagging(_ context.Context, over time.Duration, limit int) ([]stats.LaggingPartition, error) {
	f.groups = append(f.groups, groupCall{verb: "lagging", over: over, limit: limit})
	return f.lagging, nil
}

func (f *fakes) Push(_ context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	f.pushed = append(f.pushed, items)
	if f.push != nil {
		return f.push(items)
	}
	return make([]queue.PushResult, len(items)), nil
}

func (f *fakes) Ack(_ context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	f.acked = append(f.acked, items)
	if f.ack != nil {
		return f.ack(items)
	}
	return make([]queue.AckResult, len(items)), nil
}

func (f *fakes) Extend(_ context.Context, lease queue.ID, d time.Duration) (time.Time, error) {
	return f.extend(lease, d)
}

func (f *fakes) Transact(_ context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	f.sent = append(f.sent, tx)
	if f.transact != nil {
		return f.transact(tx)
	}
	result := queue.TransactionResult{Applied: true, Operations: make([]queue.OperationResult, len(tx.Operations))}
	for i, op := range tx.Operations {
		if op.Push != nil {
			result.Operations[i].Push = &queue.PushResult{TransactionID: op.Push.TransactionID, MessageID: idOne, PartitionID: idTwo}
		} else {
			result.Operations[i].Ack = &queue.AckResult{Success: true, Resolved: true}
		}
	}
	return result, nil
}

func (f *fakes) Pop(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error) {
	f.popped = append(f.popped, req)
	if f.pop == nil {
		return &queue.Delivery{}, nil
	}
	delivery, err := f.pop(ctx, req)
	return &delivery, err
}

func (f *fakes) Release(_ context.Context, delivery *queue.Delivery) {
	f.released = append(f.released, *delivery)
}

func (f *fakes) Waiting() int { return f.waiting }

func (f *fakes) Status() dispatch.Status { return f.status }

func (f *fakes) Configure(_ context.Context, set catalog.Settings) (catalog.Configured, error) {
	f.set = append(f.set, set)
	if f.configure != nil {
		return f.configure(set)
	}
	return catalog.Configured{QueueID: idOne, PartitionID: idTwo}, nil
}

func (f *fakes) Delete(_ context.Context, name string) (bool, error) {
	f.removed = append(f.removed, name)
	if f.remove != nil {
		return f.remove(name)
	}
	return true, nil
}

// reached says whether anything below was called.
func (f *fakes) reached() bool {
	return len(f.pushed)+len(f.acked)+len(f.popped)+len(f.sent)+len(f.set)+len(f.removed)+len(f.groups)+f.dead.calls+f.traces.calls > 0
}

// newServer returns a server on the fakes, and its log.
func newServer(f *fakes) (*Server, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	if f.ping == nil {
		f.ping = func(context.Context) error { return nil }
	}
	return New(DefaultConfig(), Deps{
		Verbs: f, Popper: f, Catalog: f, GroupVerbs: f, GroupReader: f, Resources: &f.shelf, Letters: &f.dead, Traces: &f.traces,
		Ping: f.ping, Listener: func() ListenerState { return f.listener }, Inbox: f.inboxState,
		Metrics: NewMetrics(prometheus.NewRegistry()), Defaults: queue.DefaultDefaults(), Version: "1.2.3", Log: zap.New(core),
	}), logs
}

// call sends one request to a server on the fakes.
func call(f *fakes, method, target, body string) *httptest.ResponseRecorder {
	s, _ := newServer(f)
	return send(s, httptest.NewRequest(method, target, reader(body)))
}

func reader(body string) io.Reader {
	if body == "" {
		return http.NoBody
	}
	return strings.NewReader(body)
}

func send(s *Server, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, r)
	return rec
}

// sendBody sends a request that must be answered with 200.
func sendBody(t *testing.T, s *Server, method, target, body string) {
	t.Helper()
	rec := send(s, httptest.NewRequest(method, target, reader(body)))
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
}

// requireError checks an error answer and returns its text.
func requireError(t *testing.T, rec *httptest.ResponseRecorder, status int) string {
	t.Helper()
	require.Equal(t, status, rec.Code, rec.Body)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	var body map[string]string
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body), rec.Body)
	require.Len(t, body, 1)
	require.NotEmpty(t, body["error"])
	return body["error"]
}

// requireInvalid checks that err is one that becomes a 400.
func requireInvalid(t testing.TB, err error) {
	t.Helper()
	var coded *queue.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, queue.CodeInvalid, coded.Code)
	require.NotEmpty(t, coded.Message)
}

func (f *fakes) inboxState(context.Context) (InboxState, error) {
	if f.inbox == nil {
		return InboxState{}, errors.New("the database does not answer")
	}
	return *f.inbox, nil
}
