package queue_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestHeadersAreStoredInOneForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "", ` { } `: "",
		`{"b":"2", "A":"x y"}`:             `{"a":"x y","b":"2"}`,
		`{"Content-Type":"text/pläin/\""}`: `{"content-type":"text/pläin/\""}`,
		`{"a":"\u00e4\/"}`:                 `{"a":"ä/"}`,
		`{"a":""}`:                         `{"a":""}`,
	} {
		got, err := queue.ParseHeaders("headers", []byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, string(got))
		if again, err := queue.ParseHeaders("headers", got); want != "" {
			require.NoError(t, err)
			require.Equal(t, got, again, "the stored form does not change")
		}
	}
}

func TestHeadersThatCannotBeStored(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range queue.MaxHeaders + 1 {
		many[fmt.Sprint("h", i)] = ""
	}
	for want, value := range map[string]any{
		"must be an object":   []string{"a"},
		"must be an object ":  nil,
		"at most 32 headers":  many,
		"at most 8192 bytes":  map[string]string{"a": strings.Repeat("x", queue.MaxHeaderBytes)},
		"headers.a must be a": map[string]int{"A": 1},
		"control character":   map[string]string{"a": "1\r\nb: 2"},
		"not \"b c\"":         map[string]string{"b c": ""},
		"not \"\"":            map[string]string{"": ""},
		"not \"ä\"":           map[string]string{"ä": ""},
		"has a twice":         map[string]string{"A": "", "a": ""},
		"1 to 128 letters":    map[string]string{strings.Repeat("a", queue.MaxHeaderName+1): ""},
	} {
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		_, err = queue.ParseHeaders("headers", raw)
		require.ErrorContains(t, err, strings.TrimSpace(want), "%.100s", raw)
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err))
	}
}

func TestTraceOfHeaders(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for value, valid := range map[string]bool{
		"00-" + trace + "-00f067aa0ba902b7-01":                   true,
		"01-" + trace + "-00f067aa0ba902b7-01-later":             true,
		"00-" + trace + "-00f067aa0ba902b7-01-later":             false,
		"ff-" + trace + "-00f067aa0ba902b7-01":                   false,
		"00-" + trace + "-0000000000000000-01":                   false,
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01": false,
		"00-" + strings.ToUpper(trace) + "-00f067aa0ba902b7-01":  false,
		"": false, "00": false,
	} {
		raw, err := json.Marshal(map[string]string{"a": "traceparent", "TraceParent": value})
		require.NoError(t, err)
		headers, err := queue.ParseHeaders("headers", raw)
		require.NoError(t, err)
		require.Equal(t, valid, !headers.TraceID().IsZero(), value)
		require.Equal(t, value, headers.Get("traceparent"))
		require.Empty(t, headers.Get("tracestate"))
	}
	require.True(t, queue.Headers(nil).TraceID().IsZero())
}
