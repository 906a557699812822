package tracing

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxLinks is the maximum number of links of a span. It is the default of OTEL_SPAN_LINK_COUNT_LIMIT.
const maxLinks = 128

// contexts reads and writes the headers traceparent and tracestate.
var contexts propagation.TraceContext

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// NewTracer returns a Tracer of a provider.
func NewTracer(provider trace.TracerProvider) *Tracer { return &Tracer{provider.Tracer(scope)} }

// latest has the context of the last span of a request. The span of a pop begins after the request, so the context of the request
// cannot have it.
type latest struct {
	span atomic.Pointer[trace.SpanContext]
}

type latestKey struct{}

// quiet are the routes without a span of their own: the verbs, whose spans Verbs, Pusher and Popper make, streams, probes and
// metrics.
var quiet = []string{
	"/api/v1/push", "/api/v1/pop", "/api/v1/ack", "/api/v1/transaction", "/streams/v1/cycle",
	"/api/v1/sse", "/api/v1/events", "/livez", "/readyz", "/health", "/metrics",
}

func isQuiet(route string) bool {
	return slices.ContainsFunc(quiet, func(prefix string) bool {
		rest, ok := strings.CutPrefix(route, prefix)
		return ok && (rest == "" || rest[0] == '/')
	})
}

// Request returns the context of a request, and a function that the caller must call with the status of the answer. route is the
// pattern of the path.
func (t *Tracer) Request(r *http.Request, route string) (ctx context.Context, end func(status int)) {
	ctx = context.WithValue(contexts.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), latestKey{}, &latest{})
	if isQuiet(route) {
		return ctx, func(int) {}
	}
	ctx, span := t.start(ctx, strings.TrimSpace(r.Method+" "+route), trace.SpanKindServer)
	return ctx, func(status int) {
		if span.IsRecording() {
			span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route),
				attribute.String("url.path", r.URL.Path), attribute.Int("http.response.status_code", status))
			if status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, "")
			}
		}
		span.End()
	}
}

// start starts a span and notes it for the log lines of the request.
func (t *Tracer) start(ctx context.Context, name string, kind trace.SpanKind, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, span := t.tracer.Start(ctx, name, append(options, trace.WithSpanKind(kind))...)
	if noted, ok := ctx.Value(latestKey{}).(*latest); ok {
		of := span.SpanContext()
		noted.span.Store(&of)
	}
	return ctx, span
}

// AddFields adds trace_id and span_id of the last span of a request to a log line. Without a span, it adds the ids of the header
// traceparent of the request, or nothing.
func AddFields(ctx context.Context, to zapcore.ObjectEncoder) {
	of := trace.SpanContextFromContext(ctx)
	if noted, ok := ctx.Value(latestKey{}).(*latest); ok {
		if last := noted.span.Load(); last != nil {
			of = *last
		}
	}
	if of.IsValid() {
		to.AddString("trace_id", of.TraceID().String())
		to.AddString("span_id", of.SpanID().String())
	}
}

// end ends a span. err is the outcome of its work.
func end(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		code := string(queue.CodeOf(err))
		span.SetAttributes(attribute.String("error.type", code))
		span.SetStatus(codes.Error, code)
	}
	span.End()
}

// created returns the context of the span that created a message, or an invalid context.
func created(headers queue.Headers) trace.SpanContext {
	if headers.TraceID().IsZero() {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(contexts.Extract(context.Background(), propagation.MapCarrier(headers.Map())))
}

// link adds a link to the creator of a message.
func link(span trace.Span, headers queue.Headers) {
	if of := created(headers); of.IsValid() {
		span.AddLink(trace.Link{SpanContext: of})
	}
}

// Inject returns the headers with the traceparent of the span of ctx. If they have a traceparent or ctx has no span, it returns
// them unchanged.
func Inject(ctx context.Context, headers queue.Headers) queue.Headers {
	if !trace.SpanContextFromContext(ctx).IsValid() || headers.Get("traceparent") != "" {
		return headers
	}
	carrier := propagation.MapCarrier{}
	contexts.Inject(ctx, carrier)
	return headers.With(carrier)
}
