package client

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/client/spans"
)

// TraceID returns the traceId for a W3C traceparent header. The traceId is the trace id of the header, written as a UUID. For
// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 the result is 4bf92f35-77b3-4da6-a3ce-929d0e0e4736. It fails if the
// header is not valid.
func TraceID(traceparent string) (string, error) { return spans.TraceID(traceparent) }

// W3CTraceID returns the W3C trace id of a traceId: its 32 hexadecimal digits. It is "" if traceID is not a UUID.
func W3CTraceID(traceID string) string { return spans.W3CTraceID(traceID) }

// WithTraceID returns a context with a trace id. A push with this context uses it for each item without a TraceID. traceID must
// be a UUID; see TraceID.
func WithTraceID(ctx context.Context, traceID string) context.Context {
	return spans.WithTraceID(ctx, traceID)
}

// ContextTraceID returns the trace id of a context, or "".
func ContextTraceID(ctx context.Context) string { return spans.ContextTraceID(ctx) }
