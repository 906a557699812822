package data_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// writer is the connection of a client. Each Write first calls onWrite. When the
// answer is complete, Write calls onWhole. FlushError returns flushing.
type writer struct {
	httptest.ResponseRecorder
	onWrite  func() error
	onWhole  func()
	flushing error
	writes   int
}

func (w *writer) FlushError() error { return w.flushing }

func (w *writer) Write(b []byte) (int, error) {
	w.writes++
	if err := w.onWrite(); err != nil {
		return 0, err
	}
	n, err := w.ResponseRecorder.Write(b)
	if w.onWhole != nil && json.Valid(w.Body.Bytes()) {
		w.onWhole()
	}
	return n, err
}

func TestDeliveryThatCannotBeWrittenIsReleasedOnce(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Pop: apitest.Deliver(apitest.OneMessage())}
	s, logs := apitest.Server(f)
	w := &writer{onWrite: func() error { return errors.New("broken pipe") }}
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pop/queue/orders", http.NoBody))
	require.Equal(t, []queue.Delivery{apitest.OneMessage()}, f.Released)
	require.Equal(t, 1, w.writes, "the server writes no second answer")
	require.Equal(t, 1, logs.FilterMessageSnippet("a client disconnected").FilterLevelExact(zap.DebugLevel).Len())
	require.Equal(t, 1, logs.Len(), "nothing else is logged")
}

// A large answer is written in parts, with the same text. A small answer has a Content-Length. No client can
// parse an answer without its last part.
func TestALargeAnswerIsWrittenInParts(t *testing.T) {
	t.Parallel()
	delivery := apitest.OneMessage()
	for _, size := range []int{100, 60 << 10, 10, 64 << 10, 1 << 20, 10} {
		m := delivery.Messages[0]
		m.Payload = []byte(`"` + strings.Repeat("x", size) + `"`)
		delivery.Messages = append(delivery.Messages, m)
	}
	pop := func(d queue.Delivery) *writer {
		s, _ := apitest.Server(&apitest.Fakes{Pop: apitest.Deliver(d)})
		w := &writer{ResponseRecorder: *httptest.NewRecorder(), onWrite: func() error { return nil }}
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pop/queue/orders", http.NoBody))
		return w
	}
	whole := pop(delivery)
	require.Empty(t, whole.Header().Get("Content-Length"))
	var answer struct {
		Messages []struct{ Data json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(whole.Body.Bytes(), &answer))
	require.Len(t, answer.Messages, len(delivery.Messages))
	for i, m := range answer.Messages {
		require.Equal(t, string(delivery.Messages[i].Payload), string(m.Data))
	}
	small := pop(apitest.OneMessage())
	require.Equal(t, strconv.Itoa(small.Body.Len()), small.Header().Get("Content-Length"))

	for broken := range whole.writes {
		f := &apitest.Fakes{Pop: apitest.Deliver(delivery)}
		s, _ := apitest.Server(f)
		n := 0
		w := &writer{ResponseRecorder: *httptest.NewRecorder(), onWrite: func() error {
			if n++; n > broken {
				return errors.New("broken pipe")
			}
			return nil
		}}
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pop/queue/orders", http.NoBody))
		require.Len(t, f.Released, 1)
		require.Equal(t, broken+1, w.writes)
		require.False(t, json.Valid(w.Body.Bytes()))
	}
}

func TestDeliveryToADisconnectedClientIsReleasedOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &apitest.Fakes{Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		cancel()
		return apitest.OneMessage(), nil
	}}
	s, _ := apitest.Server(f)
	apitest.Send(s, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/pop/queue/orders", http.NoBody))
	require.Equal(t, []queue.Delivery{apitest.OneMessage()}, f.Released)
}

func TestFailedPopReleasesNothing(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		return queue.Delivery{}, &queue.Error{Code: queue.CodeOverloaded, Message: "later"}
	}}
	require.Equal(t, "later", apitest.RequireError(t, apitest.Call(f, "GET", "/api/v1/pop/queue/orders", ""), 503))
	require.Empty(t, f.Released)
}

// leases is the store of a real dispatcher. It delivers once and records the released
// leases.
type leases struct {
	delivery queue.Delivery
	popped   func()
	released []queue.ID
}

func (*leases) Resolve(context.Context, *queue.PopRequest) (queue.Target, bool, bool, error) {
	return queue.Target{Group: 1}, false, true, nil
}

func (*leases) Forget(*queue.PopRequest, queue.Target) {}

func (*leases) Find(context.Context, *queue.PopRequest) (target queue.Target, registered, ok bool, err error) {
	return queue.Target{Group: 1}, true, true, nil
}

func (*leases) Settle(context.Context, int64, []int64) {}

func (*leases) Tell(context.Context, string) error { return nil }

func (*leases) Preflight(context.Context, []queue.Probe, time.Duration) ([]queue.ProbeResult, error) {
	return nil, errors.New("the first pop delivers")
}

func (*leases) Claim(context.Context, []queue.Assignment) ([]queue.Delivery, error) {
	return nil, errors.New("the first pop delivers")
}

func (l *leases) Pop(context.Context, *queue.PopRequest) (queue.Delivery, error) {
	l.popped()
	return l.delivery, nil
}

func (l *leases) Release(_ context.Context, lease queue.ID) error {
	l.released = append(l.released, lease)
	return nil
}

// If the client has disconnected, its lease is released exactly once, by the handler or
// by the dispatcher. A delivery with autoAck has no lease.
func TestLeaseIsReleasedOnceByHandlerOrDispatcher(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		autoAck       bool
		leaves        string
		writing       error
		flushing      error
		releases      int
		answerWritten bool
	}{
		"delivered":                     {leaves: "never", answerWritten: true},
		"disconnected during the pop":   {leaves: "pop", releases: 1},
		"disconnected during the write": {leaves: "write", releases: 1, answerWritten: true},
		"disconnected after the answer": {leaves: "read", answerWritten: true},
		"the write failed":              {leaves: "never", writing: broken, releases: 1},
		"the last part was not sent":    {leaves: "never", flushing: broken, releases: 1, answerWritten: true},
		"both":                          {leaves: "write", writing: broken, releases: 1},
		"autoAck delivered":             {autoAck: true, leaves: "never", answerWritten: true},
		"autoAck, during the pop":       {autoAck: true, leaves: "pop"},
		"autoAck, during the write":     {autoAck: true, leaves: "write", answerWritten: true},
		"autoAck, the write failed":     {autoAck: true, leaves: "never", writing: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store := &leases{delivery: apitest.OneMessage(), popped: func() {
				if c.leaves == "pop" {
					cancel()
				}
			}}
			if c.autoAck {
				store.delivery.LeaseID = queue.ID{}
			}
			s, _ := apitest.Server(&apitest.Fakes{}, func(_ *httpapi.Config, deps *httpapi.Deps) {
				metrics := dispatch.NewMetrics(prometheus.NewRegistry())
				deps.Popper = dispatch.New(dispatch.Deps{
					Store: store, Intents: dispatch.NewIntents(metrics), Readiness: readiness.New(time.Minute), Events: &events.Bus{},
					Proven: func() bool { return true }, Paused: func() <-chan struct{} { return nil }, Metrics: metrics, Log: zap.NewNop(),
				}, dispatch.DefaultConfig(), dispatch.DefaultSmartPoll())
			})
			w := &writer{ResponseRecorder: *httptest.NewRecorder(), flushing: c.flushing, onWrite: func() error {
				if c.leaves == "write" {
					cancel()
				}
				return c.writing
			}, onWhole: func() {
				if c.leaves == "read" {
					cancel()
				}
			}}
			s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/pop/queue/orders?wait=true", http.NoBody))
			require.Len(t, store.released, c.releases)
			for _, lease := range store.released {
				require.Equal(t, apitest.IDThree, lease)
			}
			require.Equal(t, c.answerWritten, w.Body.Len() > 0)
		})
	}
}
