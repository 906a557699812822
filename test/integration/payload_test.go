package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pushRaw pushes one message with a raw JSON payload.
func pushRaw(c client, queue, payload string) answer[[]pushed] {
	c.t.Helper()
	return ask[[]pushed](c, post("/api/v1/push", `{"items":[{"queue":"`+queue+`","payload": `+payload+` }]}`))
}

// payload pops one message and returns the bytes of its data.
func payload(c client, queue string) string {
	c.t.Helper()
	got := c.pop(queue, "autoAck=true").ok(http.StatusOK)
	require.Len(c.t, got.Messages, 1)
	return string(got.Messages[0].Data)
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	s := start(t)
	t.Run("the last of two equal members counts", func(t *testing.T) {
		t.Parallel()
		payloadTwice(t, s.client(t))
	})
	for name, sent := range map[string]string{
		"key order":            `{"z":1,"a":2,"m":{"y":1,"b":2}}`,
		"duplicate keys":       `{"a":1,"a":2,"a":1}`,
		"fraction":             `1.0`,
		"trailing zeros":       `[1.50, -0, -0.0, 1E5, 1e+05]`,
		"beyond 64 bits":       `123456789012345678901234567890`,
		"many digits":          `0.1000000000000000055511151231257827021181583404541015625`,
		"unicode":              `"grüße, 世界, 🎉, ﷽"`,
		"escapes":              `"\u00e9\u00E9\/\"\\\b\f\n\r\t/"`,
		"pair of surrogates":   `"\ud83c\udf89"`,
		"escaped NUL":          `"a\u0000b"`,
		"escaped NUL in a key": `{"a\u0000b":"\u0000"}`,
		"whitespace":           "{ \"a\" :\t[ 1 ,\r\n 2 ] ,\n\n  \"b\":{ } }",
		"backslash and u":      `"\\ud800 \\\ud83c\udf89"`,
		"largest doubles":      `[1e308, -1.7976931348623157e308, 0e999999, 1e-999]`,
		"309 digits":           "1" + strings.Repeat("0", 308),
		"5,000 decimal places": "0." + strings.Repeat("0", 4999) + "1",
		"brackets in a string": `"` + strings.Repeat("[", 9999) + `"`,
		"numbers in strings":   `{"1e400":"e400"}`,
		"empty name":           `{"":0}`,
		"byte order mark":      "\"\ufeff\"",
		"a thousand arrays":    "[" + strings.Repeat("[],", 999) + "[]]",
		"null":                 `null`,
		"true":                 `true`,
		"false":                `false`,
		"zero":                 `0`,
		"empty string":         `""`,
		"empty object":         `{}`,
		"empty array":          `[]`,
		"nested arrays":        `[[[[]]],[{}],[null,[false]]]`,
		"html":                 `"<script>&amp;</script>"`,
		"line separators":      "\"\u2028\u2029\u007f\"",
		"envelope":             `{"encrypted":"x","iv":"y","authTag":"z"}`,
		"two megabytes":        `{"text":"` + strings.Repeat("0123456789abcdeF", 1<<17) + `"}`,
		"497 deep":             nested(497),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.client(t)
			pushRaw(c, name, sent).ok(http.StatusCreated)
			got := payload(c, name)
			if got != sent { // require would print a diff of two megabytes
				t.Errorf("sent %.200q, got %.200q", sent, got)
			}
		})
	}
}

func payloadTwice(t *testing.T, c client) {
	got := ask[[]pushed](c, post("/api/v1/push",
		`{"items":[{"queue":"no"}],"items":[{"queue":"twice","payload":1,"payload":{"b":1,"a":1}}]}`))
	require.Len(t, got.ok(http.StatusCreated), 1)
	require.Equal(t, `{"b":1,"a":1}`, payload(c, "twice"))
}

// With http.allow_any_json, the nesting limit is portable.MaxAnyDepth, or less if the stack of the database is smaller. The
// server must refuse deeper payloads and must continue to work.
func payloadTooDeep(t *testing.T, c client) {
	deep := func(n int) string {
		return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2)
	}
	for _, depth := range []int{2_000, 9_000, 9_990, 9_992, 10_000, 100_000} {
		queue := fmt.Sprintf("deep-%d", depth)
		got := pushRaw(c, queue, deep(depth))
		switch got.Status {
		case http.StatusCreated:
			require.LessOrEqual(t, depth, 9_990)
			popped, err := c.send(t.Context(), popCall(queue, "autoAck=true"))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, popped.Status)
			require.True(t, bytes.Contains(popped.Raw, []byte(`"data":`+deep(depth)+`,`)), "depth %d", depth)
		default:
			require.Equal(t, http.StatusBadRequest, got.Status, "depth %d: %.300s", depth, got.Raw)
			require.NotEmpty(t, got.failure)
			require.Greater(t, depth, 2_000)
			require.Empty(t, c.popIDs(queue, ""))
		}
	}
}
