package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// The names of attributes.
const (
	system        = attribute.Key("messaging.system")
	operation     = attribute.Key("messaging.operation.name")
	operationType = attribute.Key("messaging.operation.type")
	destination   = attribute.Key("messaging.destination.name")
	partition     = attribute.Key("messaging.destination.partition.id")
	group         = attribute.Key("messaging.consumer.group.name")
	messageID     = attribute.Key("messaging.message.id")
	messageCount  = attribute.Key("messaging.batch.message_count")
	waited        = attribute.Key("belfry.wait_seconds")
	refused       = attribute.Key("belfry.refused_count")
	scheduleName  = attribute.Key("belfry.schedule")
)

// PushFunc stores messages.
type PushFunc func(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error)

// Verbs are the verbs that do not wait for messages.
type Verbs interface {
	Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error)
	Extend(ctx context.Context, lease queue.ID, d time.Duration) (time.Time, error)
	Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error)
}

// PopFunc answers pops.
type PopFunc func(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error)

// name returns the name of a span: the operation and, if it is known, the queue.
func name(verb, queueName string) string {
	if queueName == "" {
		return verb
	}
	return verb + " " + queueName
}

// Push calls next in a publish span. It sets the header traceparent of the items that have none; see the package doc.
func (t *Tracer) Push(ctx context.Context, items []queue.PushItem, next PushFunc) ([]queue.PushResult, error) {
	called := trace.SpanContextFromContext(ctx).IsValid()
	own := 0
	for i := range items {
		if len(items[i].Headers) == 0 || items[i].Headers.TraceID().IsZero() {
			own++
		}
	}
	kind := trace.SpanKindClient // the context of this span creates no message
	if own > 0 {
		kind = trace.SpanKindProducer
	}
	to := queueOf(items)
	ctx, span := t.start(ctx, name("publish", to), kind)
	if span.IsRecording() {
		span.SetAttributes(system.String("belfry"), operation.String("publish"), operationType.String("send"), messageCount.Int(len(items)))
		describe(span, to, items)
		linkItems(span, items)
	}
	if called || span.SpanContext().IsSampled() {
		for i := range items {
			items[i].Headers = Inject(ctx, items[i].Headers)
			if items[i].TraceID.IsZero() {
				items[i].TraceID = items[i].Headers.TraceID()
			}
		}
	}
	results, err := next(ctx, items)
	end(span, err)
	return results, err
}

// queueOf returns the queue of the items, or "" if they have several.
func queueOf(items []queue.PushItem) string {
	for i := range items {
		if items[i].Queue != items[0].Queue {
			return ""
		}
	}
	if len(items) == 0 {
		return ""
	}
	return items[0].Queue
}

// describe adds the attributes of a push to one queue, and of a single message.
func describe(span trace.Span, to string, items []queue.PushItem) {
	if to != "" {
		span.SetAttributes(destination.String(to))
	}
	if len(items) == 1 {
		span.SetAttributes(partition.String(items[0].Partition))
		if items[0].TransactionID != "" {
			span.SetAttributes(messageID.String(items[0].TransactionID))
		}
	}
}

func linkItems(span trace.Span, items []queue.PushItem) {
	for i := range items[:min(len(items), maxLinks)] {
		link(span, items[i].Headers)
	}
}

// Pop calls next. If the pop delivers messages, it makes a receive span.
func (t *Tracer) Pop(ctx context.Context, req *queue.PopRequest, next PopFunc) (*queue.Delivery, error) {
	began := time.Now()
	delivery, err := next(ctx, req)
	if err == nil && len(delivery.Messages) > 0 {
		t.received(ctx, began, delivery)
	}
	return delivery, err
}

// received makes the receive span of a delivery whose request began at an instant. Each part of the age of a message is the
// difference of two times of one clock.
func (t *Tracer) received(ctx context.Context, began time.Time, d *queue.Delivery) {
	first, creates := &d.Messages[0], false
	if len(d.Messages) == 1 && !trace.SpanContextFromContext(ctx).IsValid() {
		if of := created(first.Headers); of.IsValid() {
			ctx, creates = trace.ContextWithRemoteSpanContext(ctx, of), true
		}
	}
	from := d.ReceivedAt.Add(first.CreatedAt.Sub(d.DatabaseNow))
	if from.Before(began) || from.After(d.ReceivedAt) {
		from = began
	}
	_, span := t.start(ctx, name("receive", d.Queue), trace.SpanKindClient, trace.WithTimestamp(from))
	if span.IsRecording() {
		span.SetAttributes(system.String("belfry"), operation.String("receive"), operationType.String("receive"), destination.String(d.Queue),
			group.String(d.Group), messageCount.Int(len(d.Messages)), waited.Float64(time.Since(began).Seconds()))
		if len(d.Messages) == 1 {
			span.SetAttributes(messageID.String(first.TransactionID))
		}
		if d.Partitions == 1 && first.Partition != nil {
			span.SetAttributes(partition.String(first.Partition.Name))
		}
		if !creates {
			for i := range d.Messages[:min(len(d.Messages), maxLinks)] {
				link(span, d.Messages[i].Headers)
			}
		}
	}
	span.End()
}

// Verbs returns verbs with spans.
func (t *Tracer) Verbs(next Verbs) Verbs { return verbs{next, t} }

type verbs struct {
	Verbs
	tracer *Tracer
}

func (v verbs) Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	ctx, span := v.tracer.start(ctx, "settle", trace.SpanKindClient)
	results, err := v.Verbs.Ack(ctx, items)
	if span.IsRecording() {
		failures := 0
		for i := range results {
			if !results[i].Success {
				failures++
			}
		}
		span.SetAttributes(system.String("belfry"), operation.String("settle"), operationType.String("settle"), messageCount.Int(len(items)),
			refused.Int(failures))
		if len(items) > 0 {
			span.SetAttributes(group.String(items[0].Group))
		}
		if len(items) == 1 {
			span.SetAttributes(messageID.String(items[0].TransactionID))
		}
	}
	end(span, err)
	return results, err
}

func (v verbs) Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	ctx, span := v.tracer.start(ctx, "transact", trace.SpanKindClient)
	if span.IsRecording() {
		kind, links := "settle", 0
		for _, op := range tx.Operations {
			if op.Push != nil {
				kind = "send"
				if links++; links <= maxLinks {
					link(span, op.Push.Headers)
				}
			}
		}
		span.SetAttributes(system.String("belfry"), operation.String("transact"), operationType.String(kind), messageCount.Int(len(tx.Operations)))
	}
	result, err := v.Verbs.Transact(ctx, tx)
	if span.IsRecording() {
		span.SetAttributes(attribute.Bool("belfry.applied", result.Applied))
	}
	end(span, err)
	return result, err
}
