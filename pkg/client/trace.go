package client

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// TraceID returns the traceId for a W3C traceparent header. The traceId is the trace id of the header, written as a UUID. For
// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 the result is 4bf92f35-77b3-4da6-a3ce-929d0e0e4736. It fails if the
// header is not valid.
func TraceID(traceparent string) (string, error) {
	version, rest, _ := strings.Cut(traceparent, "-")
	parts := strings.Split(rest, "-")
	const traceSize, parentSize, parts00 = 16, 8, 3
	if len(parts) < parts00 || version == "00" && len(parts) > parts00 || version == "ff" ||
		!isHex(version, 1) || !isHex(parts[1], parentSize) || !isHex(parts[2], 1) || strings.Trim(parts[1], "0") == "" {
		return "", fmt.Errorf("traceparent %q is not of the form 00-<trace id>-<span id>-<flags>", traceparent)
	}
	id, err := uuid.Parse(parts[0])
	if err != nil || !isHex(parts[0], traceSize) || id == uuid.Nil {
		return "", fmt.Errorf("traceparent %q has no trace id of 32 hexadecimal digits in lower case", traceparent)
	}
	return id.String(), nil
}

// isHex reports whether text consists of 2*bytes hexadecimal digits in lower case.
func isHex(text string, bytes int) bool {
	return len(text) == hex.EncodedLen(bytes) && strings.Trim(text, "0123456789abcdef") == ""
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

// WithTraceID returns a context with a trace id. A push with this context uses it for each item without a TraceID. traceID must
// be a UUID; see TraceID.
func WithTraceID(ctx context.Context, traceID string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceID)
}

// ContextTraceID returns the trace id of a context, or "".
func ContextTraceID(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}
