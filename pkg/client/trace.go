package client

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// TraceID returns the traceId for a W3C traceparent header, such as
// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01. It has the 16 bytes of the trace id, written as a UUID:
// 4bf92f35-77b3-4da6-a3ce-929d0e0e4736. It fails if the header is not valid.
func TraceID(traceparent string) (string, error) {
	parts := strings.Split(traceparent, "-")
	const version, parent, flags = 2, 16, 2 // hexadecimal digits
	if len(parts) < 4 || len(parts[0]) != version || len(parts[2]) != parent || len(parts[3]) != flags {
		return "", fmt.Errorf("traceparent %q is not of the form 00-<trace id>-<span id>-<flags>", traceparent)
	}
	bytes, err := hex.DecodeString(parts[1])
	id, sizeErr := uuid.FromBytes(bytes)
	if err != nil || sizeErr != nil || id == uuid.Nil {
		return "", fmt.Errorf("traceparent %q has no trace id of 32 hexadecimal digits", traceparent)
	}
	return id.String(), nil
}

// W3CTraceID returns the W3C trace id of a traceId: its 32 hexadecimal digits. It is "" if traceID is not a UUID.
func W3CTraceID(traceID string) string {
	id, err := uuid.Parse(traceID)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(id[:])
}

type traceKey struct{}

// WithTraceID returns a context whose pushes carry a trace id, unless the item has its own. It must be a UUID; see TraceID.
func WithTraceID(ctx context.Context, traceID string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceID)
}

// ContextTraceID returns the trace id of a context, or "".
func ContextTraceID(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}
