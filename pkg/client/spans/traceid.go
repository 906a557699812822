package spans

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// TraceID returns the trace id of a traceparent as a UUID. See client.TraceID.
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

// W3CTraceID returns the 32 hexadecimal digits of a UUID, or "".
func W3CTraceID(traceID string) string {
	id, err := uuid.Parse(traceID)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(id[:])
}

type traceKey struct{}

// WithTraceID returns a context with the trace id of its pushes.
func WithTraceID(ctx context.Context, traceID string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceID)
}

// ContextTraceID returns the trace id that WithTraceID has set, or "".
func ContextTraceID(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}
