package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// bodyRoutes are the routes that read a body, with one they accept.
var bodyRoutes = map[string]string{
	"/api/v1/push": onePush, "/api/v1/ack": `{"transactionId":"t","partitionId":"p"}`,
	"/api/v1/ack/batch": `{"acknowledgments":[]}`, "/api/v1/configure": `{"queue":"q"}`,
}

func TestBrokenBodiesAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                        "Empty request body",
		"[]":                      "the body must be a JSON object",
		`"text"`:                  "the body must be a JSON object",
		"null":                    "the body must be a JSON object",
		"\n":                      "at byte 2 (line 2, column 1)",
		"x":                       "at byte 1 (line 1, column 1)",
		"{":                       "at byte 2 (line 1, column 2)",
		`{"a":`:                   "at byte 6 (line 1, column 6)",
		`{"a":1}x`:                "at byte 8 (line 1, column 8)",
		`{"a":1} {}`:              "something follows the object",
		`{"a":1,}`:                "at byte 7 (line 1, column 7)",
		"{\n  \"ü\": 1,\n  oops}": "(line 3, column 3)",
		"{\"a\":\"\xff\"}":        "byte 7 is not UTF-8",
		"{\"a\":\"\xe2\x82\"}":    "byte 7 is not UTF-8",
		"\ufeff{}":                "at byte 1 (line 1, column 1)",
		`{"a":"\x"}`:              "at byte 7 (line 1, column 7)",
		`{"a":01}`:                "at byte 7 (line 1, column 7)",
		`{a:1}`:                   "at byte 2 (line 1, column 2)",
	} {
		for route := range bodyRoutes {
			f := &fakes{}
			text := requireError(t, call(f, "POST", route, body), 400)
			assert.Contains(t, text, want, "%s %q", route, body)
			require.False(t, f.reached(), "%s %q", route, body)
		}
	}
}

func TestBodyOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	for route, good := range bodyRoutes {
		for _, known := range []bool{true, false} {
			f := &fakes{}
			s, _ := newServer(f)
			s.cfg.MaxBodyBytes = 100
			for size, status := range map[int]int{100: 0, 101: 413} {
				r := httptest.NewRequest("POST", route, strings.NewReader(good+strings.Repeat(" ", size-len(good))))
				if !known {
					r.ContentLength = -1
				}
				rec := send(s, r)
				if status == 0 {
					require.Less(t, rec.Code, 300, "%s with %d bytes: %s", route, size, rec.Body)
					continue
				}
				text := requireError(t, rec, status)
				require.Contains(t, text, "larger than 100 bytes")
				require.Contains(t, text, "http.max_body_bytes")
			}
		}
	}
}

func TestNestingHasItsLimit(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"[", `{"a":`, `[{"b":`} {
		for _, body := range []string{open, `{"items":[{"queue":"q","payload":` + open, `{"options":` + open, `{"acknowledgments":` + open} {
			deep := body + strings.Repeat(open, 20_000)
			for route := range bodyRoutes {
				f := &fakes{}
				require.Contains(t, requireError(t, call(f, "POST", route, deep), 400), "Invalid JSON")
				require.False(t, f.reached())
			}
		}
	}
	const depth = 5_000
	payload := strings.Repeat("[", depth) + strings.Repeat("]", depth)
	items, err := parsePush([]byte(`{"items":[{"queue":"q","payload":` + payload + `}]}`))
	require.NoError(t, err)
	require.Equal(t, payload, string(items[0].Payload))
}

// cutOff is a body whose connection breaks.
type cutOff struct{ text io.Reader }

func (c cutOff) Read(b []byte) (int, error) {
	n, err := c.text.Read(b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestBodyThatEndsEarlyStoresNothing(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s, _ := newServer(f)
	text := requireError(t, send(s, httptest.NewRequest("POST", "/api/v1/push", cutOff{strings.NewReader(onePush)})), 400)
	require.Contains(t, text, "the body ended early")
	require.False(t, f.reached())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := send(s, httptest.NewRequestWithContext(ctx, "POST", "/api/v1/push", cutOff{strings.NewReader(onePush)}))
	require.Zero(t, rec.Body.Len(), "nobody is there to read an answer")
	require.False(t, f.reached())
}

func TestNamesHaveTheirLimits(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                       "",
		"orders":                 "",
		strings.Repeat("x", 255): "",
		strings.Repeat("x", 256): "is 256 bytes long: at most 255 are allowed",
		strings.Repeat("ü", 127): "",
		strings.Repeat("ü", 128): "is 256 bytes long: at most 255 are allowed",
		"a\x00b":                 "contains a NUL character",
	} {
		err := checkName("queue", name)
		if want == "" {
			require.NoError(t, err, "%q", name)
			continue
		}
		requireInvalid(t, err)
		require.ErrorContains(t, err, "queue "+want)
	}
}

func TestTextReadsWhatClientsOfTheReferenceWrite(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`""`: "", `"a"`: "a", `"ü\u00fc\n"`: "üü\n", `"\ud83d\ude00"`: "😀",
		`"\ud83d"`: "\uFFFD", `"x\ude00y"`: "x\uFFFDy", `"\u0000"`: "\x00", `"\/"`: "/",
	} {
		got, ok := text([]byte(raw))
		require.True(t, ok, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{"1", "null", "true", "[]", "{}"} {
		_, ok := text([]byte(raw))
		require.False(t, ok, raw)
	}
}

func TestWholeNumbersAreReadAsJSONWritesThem(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "300": 300, "3e2": 300, "300.0": 300, "-7": -7, "9223372036854775807": 1<<63 - 1,
	} {
		got, err := wholeNumber("seconds", []byte(raw))
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{"0.5", "1e-1", "1e300", "9223372036854775808", `"1"`, "true", "[1]", "{}"} {
		_, err := wholeNumber("seconds", []byte(raw))
		requireInvalid(t, err)
		require.ErrorContains(t, err, "seconds must be a whole number, not "+raw)
	}
	_, err := wholeNumber("seconds", []byte(`"`+strings.Repeat("9", 500)+`"`))
	require.Less(t, len(err.Error()), 150, "a long value is shortened")
	require.Equal(t, queue.CodeInvalid, queue.CodeOf(err))
}
