package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/belfry-mq/belfry/pkg/process/tracing"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func recorded() (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))), spans
}

// The receive span of a long poll begins when its oldest message was stored. A pop that begins later begins its span itself.
func TestAReceiveSpanHasNoWait(t *testing.T) {
	t.Parallel()
	tracer, spans := recorded()
	pop := func(age time.Duration) time.Duration {
		_, err := tracer.Pop(t.Context(), &queue.PopRequest{}, func(context.Context, *queue.PopRequest) (*queue.Delivery, error) {
			now := time.Now()
			return &queue.Delivery{Queue: "q", DatabaseNow: now.Add(-time.Hour), ReceivedAt: now, Messages: []queue.Message{{CreatedAt: now.Add(-time.Hour - age)}}}, nil
		})
		require.NoError(t, err)
		last := spans.Ended()[len(spans.Ended())-1]
		return last.EndTime().Sub(last.StartTime())
	}
	require.Less(t, pop(time.Minute), 30*time.Second, "the message is older than the pop")
	require.Less(t, pop(0), 30*time.Second)
}

// A pop that fails or delivers nothing has no span. A push that fails has a span with the code of the error.
func TestWhatHasASpan(t *testing.T) {
	t.Parallel()
	tracer, spans := recorded()
	failed := &queue.Error{Code: queue.CodeUnavailable, Message: "later"}
	for _, err := range []error{nil, failed} {
		_, got := tracer.Pop(t.Context(), &queue.PopRequest{}, func(context.Context, *queue.PopRequest) (*queue.Delivery, error) { return &queue.Delivery{}, err })
		require.ErrorIs(t, got, err)
	}
	require.Empty(t, spans.Ended())
	_, err := tracer.Push(t.Context(), []queue.PushItem{{Queue: "a"}, {Queue: "b"}}, func(context.Context, []queue.PushItem) ([]queue.PushResult, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	require.Equal(t, "publish", spans.Ended()[0].Name(), "the push has two queues")
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "unavailable"}, spans.Ended()[0].Status())
}

// A message that has no room for another header keeps its headers.
func TestAFullMessageGetsNoHeader(t *testing.T) {
	t.Parallel()
	tracer, _ := recorded()
	all := map[string]string{}
	for i := range queue.MaxHeaders {
		all[fmt.Sprint("header-", i)] = "x"
	}
	items := []queue.PushItem{{Queue: "q", Headers: queue.NewHeaders(all)}, {Queue: "q"}}
	_, err := tracer.Push(t.Context(), items, func(_ context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
		require.Equal(t, all, items[0].Headers.Map())
		require.Len(t, items[1].Headers.Map(), 1)
		require.Equal(t, items[1].Headers.TraceID(), items[1].TraceID)
		return nil, nil
	})
	require.NoError(t, err)
}

// Probes, metrics and streams have no span. A server error marks the span of a request.
func TestRequestsHaveSpans(t *testing.T) {
	t.Parallel()
	tracer, spans := recorded()
	for _, route := range []string{"/livez", "/metrics/prometheus", "/api/v1/sse/queue/:queue", "/api/v1/pop", "/api/v1/ack/batch"} {
		_, end := tracer.Request(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil), route)
		end(http.StatusOK)
	}
	require.Empty(t, spans.Ended())
	_, end := tracer.Request(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/popular", nil), "/api/v1/popular")
	end(http.StatusInternalServerError)
	require.Equal(t, "GET /api/v1/popular", spans.Ended()[0].Name())
	require.Equal(t, codes.Error, spans.Ended()[0].Status().Code)
}

// A span of a message that was not stored is never exported. A message with a context of its own begins no trace.
func TestPublicationsOfSchedules(t *testing.T) {
	t.Parallel()
	tracer, spans := recorded()
	headers, lost := tracer.Publish(t.Context(), "s", "q", "s@1", nil)
	require.NotNil(t, lost)
	require.NotZero(t, headers.TraceID())
	_, stored := tracer.Publish(t.Context(), "s", "q", "s@2", nil)
	stored.Stored()
	require.Len(t, spans.Ended(), 1)
	kept, none := tracer.Publish(t.Context(), "s", "q", "s@3", headers)
	require.Equal(t, headers, kept)
	none.Stored()
	kept, none = (*tracing.Tracer)(nil).Publish(t.Context(), "s", "q", "s@4", nil)
	require.Nil(t, kept)
	none.Stored()
	require.Len(t, spans.Ended(), 1)
}

func TestAnUnsettledTransactionIsAnError(t *testing.T) {
	t.Parallel()
	tracer, spans := recorded()
	verbs := tracer.Verbs(failing{})
	_, err := verbs.Transact(t.Context(), &queue.Transaction{Operations: []queue.Operation{{Push: &queue.PushItem{}}}})
	require.Error(t, err)
	_, err = verbs.Ack(t.Context(), []queue.AckItem{{Group: "g", TransactionID: "1"}})
	require.Error(t, err)
	for _, span := range spans.Ended() {
		require.Equal(t, codes.Error, span.Status().Code, span.Name())
	}
	require.Len(t, spans.Ended(), 2)
}

type failing struct{ tracing.Verbs }

var errBroken = errors.New("broken")

func (failing) Ack(context.Context, []queue.AckItem) ([]queue.AckResult, error) {
	return nil, errBroken
}

func (failing) Transact(context.Context, *queue.Transaction) (queue.TransactionResult, error) {
	return queue.TransactionResult{}, errBroken
}
