package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/readiness"
)

// oneMessage is a delivery under the lease idThree.
func oneMessage() queue.Delivery {
	return queue.Delivery{
		Queue: "orders", Group: "g", LeaseID: idThree, Partitions: 1,
		Messages: []queue.Message{{
			Partition: &queue.Partition{ID: idOne, Name: "Default"}, ID: idTwo, TransactionID: "t", Payload: json.RawMessage("1"),
		}},
	}
}

func deliver(d queue.Delivery) func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
	return func(context.Context, *queue.PopRequest) (queue.Delivery, error) { return d, nil }
}

// writer is a client's connection: each write calls onWrite first, and onWhole after
// it when the client has all of the answer. flushing is what a flush returns.
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
	f := &fakes{pop: deliver(oneMessage())}
	s, logs := newServer(f)
	w := &writer{onWrite: func() error { return errors.New("broken pipe") }}
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pop/queue/orders", http.NoBody))
	require.Equal(t, []queue.Delivery{oneMessage()}, f.released)
	require.Equal(t, 1, w.writes, "no second answer is tried")
	require.Zero(t, logs.Len())
}

func TestDeliveryToAClientThatLeftIsReleasedOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakes{pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		cancel()
		return oneMessage(), nil
	}}
	s, _ := newServer(f)
	send(s, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/pop/queue/orders", http.NoBody))
	require.Equal(t, []queue.Delivery{oneMessage()}, f.released)
}

func TestPopThatFailedHasNothingToRelease(t *testing.T) {
	t.Parallel()
	f := &fakes{pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		return queue.Delivery{}, &queue.Error{Code: queue.CodeOverloaded, Message: "later"}
	}}
	require.Equal(t, "later", requireError(t, call(f, "GET", "/api/v1/pop/queue/orders", ""), 503))
	require.Empty(t, f.released)
}

// leases is the store below a real dispatcher: it delivers once and keeps what
// comes back.
type leases struct {
	delivery queue.Delivery
	popped   func()
	released []queue.ID
}

func (*leases) Resolve(context.Context, *queue.PopRequest) (queue.Target, bool, error) {
	return queue.Target{Group: 1}, true, nil
}

func (*leases) Forget(*queue.PopRequest, queue.Target) {}

func (*leases) Find(context.Context, *queue.PopRequest) (target queue.Target, registered, ok bool, err error) {
	return queue.Target{Group: 1}, true, true, nil
}

func (*leases) Settle(context.Context, int64, []int64) {}

func (*leases) Tell(context.Context, string) error { return nil }

func (*leases) Preflight(context.Context, []queue.Probe, time.Duration) ([]queue.ProbeResult, error) {
	return nil, errors.New("the first look delivers")
}

func (*leases) Claim(context.Context, []queue.Assignment) ([]queue.Delivery, error) {
	return nil, errors.New("the first look delivers")
}

// alone is a server without other instances.
func (l *leases) Pop(context.Context, *queue.PopRequest) (queue.Delivery, error) {
	l.popped()
	return l.delivery, nil
}

func (l *leases) Release(_ context.Context, lease queue.ID) error {
	l.released = append(l.released, lease)
	return nil
}

// A lease goes back exactly once, whichever of the two rooms notices that its
// client is gone; what was consumed on delivery has none.
func TestLeaseGoesBackOnceThroughBothRooms(t *testing.T) {
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
		"delivered":                        {leaves: "never", answerWritten: true},
		"the client left during the look":  {leaves: "look", releases: 1},
		"the client left during the write": {leaves: "write", releases: 1, answerWritten: true},
		"the client has read it and left":  {leaves: "read", answerWritten: true},
		"the write failed":                 {leaves: "never", writing: broken, releases: 1},
		"the last of it was not sent":      {leaves: "never", flushing: broken, releases: 1, answerWritten: true},
		"both":                             {leaves: "write", writing: broken, releases: 1},
		"autoAck delivered":                {autoAck: true, leaves: "never", answerWritten: true},
		"autoAck left during the look":     {autoAck: true, leaves: "look"},
		"autoAck left during the write":    {autoAck: true, leaves: "write", answerWritten: true},
		"autoAck and the write failed":     {autoAck: true, leaves: "never", writing: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store := &leases{delivery: oneMessage(), popped: func() {
				if c.leaves == "look" {
					cancel()
				}
			}}
			if c.autoAck {
				store.delivery.LeaseID = queue.ID{}
			}
			s, _ := newServer(&fakes{})
			metrics := dispatch.NewMetrics(prometheus.NewRegistry())
			s.deps.Popper = dispatch.New(dispatch.Deps{
				Store: store, Intents: dispatch.NewIntents(metrics), Readiness: readiness.New(time.Minute), Events: &events.Bus{}, Proven: func() bool { return true },
				Metrics: metrics, Log: zap.NewNop(),
			}, dispatch.DefaultConfig(), dispatch.DefaultSmartPoll())
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
				require.Equal(t, idThree, lease)
			}
			require.Equal(t, c.answerWritten, w.Body.Len() > 0)
		})
	}
}
