// Package spans makes the OpenTelemetry spans of the Go client. It imports only the API of OpenTelemetry, no SDK. Only pkg/client
// imports it.
//
// A publish span begins in PushMany, a process span around each handler, and a settle span around the acknowledgments that a
// consumer sends. The context of the publish span goes into the header traceparent of each message that has none. It is the parent
// of the process span. Without a TracerProvider there are no spans, but the context of the caller still travels.
package spans

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

const (
	// maxLinks is the maximum number of links of a span.
	maxLinks = 128
	// maxHeaders is how many headers a message can have. traceparent and tracestate need two of them.
	maxHeaders = 32

	traceparent = "traceparent"
)

// contexts reads and writes the headers traceparent and tracestate.
var contexts propagation.TraceContext

// Maker makes spans.
type Maker struct{ tracer trace.Tracer }

// New returns a Maker. provider may be nil.
func New(provider trace.TracerProvider) Maker {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	return Maker{provider.Tracer("github.com/belfry-mq/belfry/pkg/client")}
}

// Ended ends a span. err is the outcome of its work.
type Ended func(err error)

func (m Maker) start(ctx context.Context, operation, kind, queue string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	name := operation
	if queue != "" {
		name += " " + queue
	}
	ctx, span := m.tracer.Start(ctx, name, options...)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.system", "belfry"), attribute.String("messaging.operation.name", operation),
			attribute.String("messaging.operation.type", kind))
		if queue != "" {
			span.SetAttributes(attribute.String("messaging.destination.name", queue))
		}
	}
	return ctx, span
}

func ending(span trace.Span) Ended {
	return func(err error) {
		if err != nil && span.IsRecording() {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Publish starts a publish span for messages.
func (m Maker) Publish(ctx context.Context, items []api.PushItem) (context.Context, Ended) {
	queue := ""
	if len(items) > 0 && !slices.ContainsFunc(items, func(item api.PushItem) bool { return item.Queue != items[0].Queue }) {
		queue = items[0].Queue
	}
	ctx, span := m.start(ctx, "publish", "send", queue, trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("messaging.batch.message_count", len(items)))
	}
	return ctx, ending(span)
}

// Process starts a process span. Its parent is the span that created the message.
func (m Maker) Process(ctx context.Context, message *api.Message[json.RawMessage]) (context.Context, trace.SpanContext, Ended) {
	if message.Headers[traceparent] != "" {
		ctx = contexts.Extract(ctx, propagation.MapCarrier(message.Headers))
	}
	ctx, span := m.start(ctx, "process", "process", message.Queue, trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.destination.partition.id", message.Partition),
			attribute.String("messaging.consumer.group.name", message.Group), attribute.String("messaging.message.id", message.TransactionID))
	}
	return ctx, span.SpanContext(), ending(span)
}

// Settle starts a settle span. processed has the process span of each acknowledged message, which may be invalid. If there is one
// message, its process span is the parent of the settle span. Otherwise the settle span has links to the process spans.
func (m Maker) Settle(ctx context.Context, processed []trace.SpanContext) (context.Context, Ended) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
	if len(processed) == 1 {
		ctx = trace.ContextWithSpanContext(ctx, processed[0])
	} else {
		options = append(options, trace.WithLinks(links(processed)...))
	}
	ctx, span := m.start(ctx, "settle", "settle", "", options...)
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("messaging.batch.message_count", len(processed)))
	}
	return ctx, ending(span)
}

// links returns links to the valid contexts.
func links(to []trace.SpanContext) (all []trace.Link) {
	for _, of := range to {
		if of.IsValid() && len(all) < maxLinks {
			all = append(all, trace.Link{SpanContext: of})
		}
	}
	return all
}

// Headers returns the headers of a message with the context of the span of ctx. If they have a traceparent, ctx has no span or there
// are too many headers, it returns them unchanged.
func Headers(ctx context.Context, headers map[string]string) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() || len(headers)+2 > maxHeaders {
		return headers
	}
	for name := range headers {
		if strings.EqualFold(name, traceparent) {
			return headers
		}
	}
	carrier := propagation.MapCarrier{}
	contexts.Inject(ctx, carrier)
	maps.Copy(carrier, headers)
	return carrier
}

// Inject sets the headers of a request to the context of the span of ctx, if there is one.
func Inject(ctx context.Context, header http.Header) {
	contexts.Inject(ctx, propagation.HeaderCarrier(header))
}
