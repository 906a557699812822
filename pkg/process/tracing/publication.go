package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Publication is the publish span of a message that the server itself makes. A nil Publication does nothing.
type Publication struct{ span trace.Span }

// Publish begins a new trace with the message of an instant of a schedule. It returns the headers of the message, and the span
// if it is sampled. A message whose headers have a traceparent begins no trace. Without a call of Stored, the span is never
// exported. t may be nil.
func (t *Tracer) Publish(ctx context.Context, schedule, queueName, transactionID string, headers queue.Headers) (queue.Headers, *Publication) {
	if t == nil || headers.Get("traceparent") != "" {
		return headers, nil
	}
	ctx, span := t.start(ctx, name("publish", queueName), trace.SpanKindProducer, trace.WithNewRoot())
	if !span.SpanContext().IsSampled() {
		return headers, nil
	}
	span.SetAttributes(system.String("belfry"), operation.String("publish"), operationType.String("send"), destination.String(queueName),
		messageID.String(transactionID), scheduleName.String(schedule))
	return Inject(ctx, headers), &Publication{span}
}

// Stored ends the span, after the message was stored.
func (p *Publication) Stored() {
	if p != nil {
		p.span.End()
	}
}
