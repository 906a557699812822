package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

// bodyRoutes maps routes that read a body to a valid body.
var bodyRoutes = map[string]string{
	"/api/v1/push": apitest.OnePush, "/api/v1/ack": `{"transactionId":"t","partitionId":"p"}`,
	"/api/v1/ack/batch": `{"acknowledgments":[]}`, "/api/v1/configure": `{"queue":"q"}`,
}

func TestMalformedBodyIsRefusedWithThePosition(t *testing.T) {
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
		`{"a":1} {}`:              "the body has more text after the object",
		`{"a":1,}`:                "at byte 7 (line 1, column 7)",
		"{\n  \"ü\": 1,\n  oops}": "(line 3, column 3)",
		"{\"a\":\"\xff\"}":        "byte 7 is not UTF-8",
		"{\"a\":\"\xe2\x82\"}":    "byte 7 is not UTF-8",
		"\ufeff":                  "Empty request body",
		"\ufeff{":                 "at byte 2 (line 1, column 2)",
		"\ufeff\ufeff{}":          "at byte 1 (line 1, column 1)",
		`{"a":"\x"}`:              "at byte 7 (line 1, column 7)",
		`{"a":01}`:                "at byte 7 (line 1, column 7)",
		`{a:1}`:                   "at byte 2 (line 1, column 2)",
	} {
		for route := range bodyRoutes {
			f := &apitest.Fakes{}
			text := apitest.RequireError(t, apitest.Call(f, "POST", route, body), 400)
			assert.Contains(t, text, want, "%s %q", route, body)
			require.False(t, f.Reached(), "%s %q", route, body)
		}
	}
}

func TestBodyAboveTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	for route, good := range bodyRoutes {
		for _, known := range []bool{true, false} {
			f := &apitest.Fakes{}
			s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MaxBodyBytes = 100 })
			for size, status := range map[int]int{100: 0, 101: 413} {
				r := httptest.NewRequest("POST", route, strings.NewReader(good+strings.Repeat(" ", size-len(good))))
				if !known {
					r.ContentLength = -1
				}
				rec := apitest.Send(s, r)
				if status == 0 {
					require.Less(t, rec.Code, 300, "%s with %d bytes: %s", route, size, rec.Body)
					continue
				}
				text := apitest.RequireError(t, rec, status)
				require.Contains(t, text, "larger than 100 bytes")
				require.Contains(t, text, "http.max_body_bytes")
			}
		}
	}
}

func TestNestingIsLimited(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"[", `{"a":`, `[{"b":`} {
		for _, body := range []string{open, `{"items":[{"queue":"q","payload":` + open, `{"options":` + open, `{"acknowledgments":` + open} {
			deep := body + strings.Repeat(open, 10_100)
			for route := range bodyRoutes {
				for anyJSON, want := range map[bool]string{false: "level 501", true: "level 9991"} {
					f := &apitest.Fakes{}
					s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.AllowAnyJSON = anyJSON })
					require.Contains(t, apitest.RequireError(t, apitest.Send(s, apitest.Request("POST", route, deep)), 400), want)
					require.False(t, f.Reached())
				}
			}
		}
	}
	for depth, anyJSON := range map[int]bool{500: false, 9_990: true} {
		payload := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		f := &apitest.Fakes{}
		s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.AllowAnyJSON = anyJSON })
		rec := apitest.Send(s, apitest.Request("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":`+payload+`}]}`))
		require.Equal(t, 201, rec.Code, rec.Body)
		require.Equal(t, payload, string(f.Pushed[0][0].Payload))
	}
}

// cutOff is a body that ends with an error, as when the connection breaks.
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
	f := &apitest.Fakes{}
	s, _ := apitest.Server(f)
	text := apitest.RequireError(t, apitest.Send(s, httptest.NewRequest("POST", "/api/v1/push", cutOff{strings.NewReader(apitest.OnePush)})), 400)
	require.Contains(t, text, "the body ended early")
	require.False(t, f.Reached())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := apitest.Send(s, httptest.NewRequestWithContext(ctx, "POST", "/api/v1/push", cutOff{strings.NewReader(apitest.OnePush)}))
	require.Zero(t, rec.Body.Len(), "the client has disconnected")
	require.False(t, f.Reached())
}

// measured records how much memory is ready for the bytes that it returns.
type measured struct {
	*strings.Reader
	ready int
}

func (m *measured) Read(b []byte) (int, error) {
	m.ready = max(m.ready, len(b))
	return m.Reader.Read(b)
}

// The memory of a body depends on the bytes that have arrived, and not on its Content-Length.
func TestAnnouncedLengthTakesLittleMemory(t *testing.T) {
	t.Parallel()
	for announced, most := range map[int64]int{42: 1 << 10, 8 << 20: 128 << 10} {
		body := &measured{Reader: strings.NewReader(apitest.OnePush)}
		s, _ := apitest.Server(&apitest.Fakes{})
		r := httptest.NewRequest("POST", "/api/v1/push", body)
		r.ContentLength = announced
		require.Equal(t, 201, apitest.Send(s, r).Code)
		require.Greater(t, body.ready, 42)
		require.LessOrEqual(t, body.ready, most)
	}
}

// Every route that reads a body refuses a compressed body because of its header, before it reads the body.
func TestACompressedBodyIsRefused(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]map[string]struct{ RequestBody any }
	}
	require.NoError(t, json.Unmarshal(openapi.Document, &document))
	routes := 0
	for path, methods := range document.Paths {
		for method, operation := range methods {
			if operation.RequestBody == nil {
				continue
			}
			routes++
			for _, encoding := range []string{"gzip", "identity, br"} {
				f := &apitest.Fakes{}
				s, _ := apitest.Server(f, func(*httpapi.Config, *httpapi.Deps) {})
				r := apitest.Request(strings.ToUpper(method), regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f"), "{}")
				r.Header.Set("Content-Encoding", encoding)
				text := apitest.RequireError(t, apitest.Send(s, r), 415)
				require.Equal(t, "the body has the Content-Encoding "+encoding+", which is not accepted: send it without compression", text, path)
				require.False(t, f.Reached(), path)
			}
		}
	}
	s, _ := apitest.Server(&apitest.Fakes{}, func(*httpapi.Config, *httpapi.Deps) {})
	r := apitest.Request("POST", "/api/v1/push", `{"items":[]}`)
	r.Header.Set("Content-Encoding", "Identity")
	require.Equal(t, 201, apitest.Send(s, r).Code)
	require.Greater(t, routes, 20)
}

// notedBody is a body that counts the bytes that were read.
type notedBody struct {
	left, read int
}

func (b *notedBody) Read(p []byte) (int, error) {
	n := min(len(p), b.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	b.left, b.read = b.left-n, b.read+n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *notedBody) Close() error { return nil }

// anonymousBodies has the paths that read a body before they check the rights of the sender, with the maximum number of bytes.
var anonymousBodies = map[string]int{
	"/ui/sign-in": 16 << 10, // the token is in the form
}

// No route reads a body before it has checked the rights of the sender. The paths in anonymousBodies read only a few bytes.
func TestNoBodyIsReadBeforeTheRights(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	var s *httpapi.Server
	s, _ = apitest.Server(&apitest.Fakes{}, withTokens, func(_ *httpapi.Config, deps *httpapi.Deps) {
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(w, r) })
		var err error
		deps.Dashboard, err = dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{API: api, Auth: tokens{}, Changes: &source.Changes{}, Log: zap.NewNop()})
		require.NoError(t, err)
	})
	walked := map[string]bool{}
	for _, route := range s.Routes() {
		paths := []string{pathOf(route.Path)}
		if route.Path == "/ui/*" {
			paths = []string{"/ui/sign-in", "/ui/sign-out", "/ui/do", "/ui/redrive", "/ui/export", "/ui/live", "/ui/queues"}
		}
		for _, path := range paths {
			for _, token := range []string{"", "foreign", "none"} {
				if open := token == "none" && route.Right&^httpapi.Granted == httpapi.AnyRole; open || (tokens{}).Skips(route.Path) {
					continue
				}
				walked[path] = true
				body := &notedBody{left: size}
				r := apitest.Request(route.Method, path, "")
				r.Body, r.ContentLength = body, size
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Authorization", "Bearer "+token)
				if token == "" {
					r.Header.Del("Authorization")
				}
				apitest.Send(s, r)
				require.LessOrEqual(t, body.read, anonymousBodies[path]+1, "%s %s with the token %q", route.Method, path, token)
				require.Zero(t, s.Inflight().Used())
			}
		}
	}
	for path := range anonymousBodies {
		require.True(t, walked[path], path)
	}
}

// target returns the path of a route with texts for its parameters. It does not escape the texts.
func target(r httpapi.Route, one, two, query string) string {
	path := strings.NewReplacer(":group", one, ":queue", one, ":leaseId", one, ":name", one, ":partitionId", one, ":transactionId", two,
		":partition", two).Replace(r.Path)
	if query != "" {
		path += "?" + query
	}
	return path
}

// FuzzRoutes sends any request to any route.
func FuzzRoutes(f *testing.F) {
	p := apitest.NewProbe()
	routes := slices.SortedFunc(slices.Values(p.Server.Routes()), func(a, b httpapi.Route) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	bodies := []string{
		`{"name":"n","source_queue":"q","config_hash":"h","reset":true}`, `{"query_id":"i","partition_id":"p","keys":["k"],"key_prefix":"k","ripe_at_or_before":1e3}`,
		`{"query_id":"i","partition_id":"p","state_ops":[{"type":"upsert","key":"k","value":{"windowEnd":1}},{"type":"delete","key":"k"}],` +
			`"push_items":[{"queue":"q"}],"ack":{"transactionId":"t","count":2}}`,
		"", apitest.OnePush, `{"transactionId":"t","partitionId":"p"}`, `{"acknowledgments":[{"transactionId":"t","partitionId":"p"}]}`,
		`{"toEnd":true}`, `{"timestamp":"2026-05-16","subscriptionTimestamp":"2026-05-16"}`, `{"toEnd":1}`,
		`{"seconds":60}`, `{"action":"skip"}`, `{"concurrency":5}`, `{"queue":"q"}`, `{"operations":[{"type":"push","items":[{"queue":"q","payload":{"a":1},"transactionId":"t"}]},` +
			`{"type":"ack","transactionId":"t","partitionId":"p","status":"completed"}],"requiredLeases":["l"]}`, `{"items":[{"queue":1}]}`, strings.Repeat(" ", apitest.SmallBody+1),
	}
	for i := range routes {
		for _, body := range bodies {
			f.Add(byte(i), "q", "Default", "batch=7&consumerGroup=g&namespace=n", []byte(body))
		}
		f.Add(byte(i), apitest.IDOne.String(), "p%2Fq", "wait=1&timeout=5&task=%00", []byte(`{"seconds":0}`))
		f.Add(byte(i), "%ff", "%zz", "consumerGroup=%00&task=%ff", []byte("\xff"))
		f.Add(byte(i), "a/b", "", "namespace=%00", []byte("{"))
	}
	f.Fuzz(func(t *testing.T, route byte, one, two, query string, body []byte) {
		at := routes[int(route)%len(routes)]
		if r := apitest.FuzzRequest(at.Method, target(at, one, two, query), body); r != nil {
			p.Ask(t, r)
		}
	})
}
