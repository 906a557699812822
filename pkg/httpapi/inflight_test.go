package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/test/apitest"
)

// A body reserves memory as it arrives. When http.max_inflight_bytes is used up, other bodies get 503. A client
// that sends its whole body before it reads gets the 503 too. When the server has answered a request, the memory of its
// body is free. The limit of this test is less than one request of the largest size needs, so the server raises the limit
// to that size.
func TestBodiesBeyondTheBudgetAreRefused(t *testing.T) {
	t.Parallel()
	const largest = 1 << 20
	f := &apitest.Fakes{}
	s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.MaxBodyBytes, cfg.MaxResponseBytes, cfg.MaxInflightBytes = largest, 1024, 1024
	})
	listening := httptest.NewServer(s.Handler())
	defer listening.Close()
	item := func(size int) string {
		head, tail := `{"items":[{"queue":"q","payload":"`, `"}]}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	push := func(body io.Reader, size int64) (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), "POST", listening.URL+"/api/v1/push", body)
		if err != nil {
			return nil, err
		}
		request.ContentLength = size
		return listening.Client().Do(request)
	}
	type result struct {
		status int
		err    error
	}
	slow, arrives := io.Pipe()
	done := make(chan result, 1)
	go func() {
		answer, err := push(slow, largest)
		if err != nil {
			done <- result{err: err}
			return
		}
		done <- result{answer.StatusCode, answer.Body.Close()}
	}()
	whole := item(largest)
	require.Zero(t, s.Inflight().Used())
	_, err := io.WriteString(arrives, whole[:largest-1])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.Inflight().Used() == (largest-1)*inflight.BodyCopies }, 30*time.Second, time.Millisecond)

	refused, err := push(strings.NewReader(item(largest/2)), largest/2)
	require.NoError(t, err, "the client can send all of its body and read the answer")
	text, err := io.ReadAll(refused.Body)
	require.NoError(t, err)
	require.NoError(t, refused.Body.Close())
	require.Equal(t, 503, refused.StatusCode, string(text))
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Contains(t, string(text), "http.max_inflight_bytes")
	require.False(t, f.Reached(), "a refused request does not reach the store")

	_, err = io.WriteString(arrives, whole[largest-1:])
	require.NoError(t, err)
	require.NoError(t, arrives.Close())
	require.Equal(t, result{status: 201}, <-done, "the first body is stored")
	require.Eventually(t, func() bool { return s.Inflight().Used() == 0 }, 30*time.Second, time.Millisecond, fmt.Sprint(s.Inflight().Used()))
}

// If a route changes state, the rows that it reads do not count towards http.max_inflight_bytes, because a redrive reads any
// number of pages and keeps none. The same holds if the context already has a reservation, as when the dashboard makes the
// request.
func TestRowsReadByAChangingRouteDoNotCount(t *testing.T) {
	t.Parallel()
	counted := map[string]bool{}
	note := func(name string) func(ctx context.Context) {
		return func(ctx context.Context) { counted[name] = inflight.From(ctx) != nil }
	}
	s, _ := apitest.Server(&apitest.Fakes{}, func(_ *httpapi.Config, deps *httpapi.Deps) {
		deps.DeadLetters = notedLetters{deps.DeadLetters, note("list"), note("redrive"), note("stream")}
	})
	page := inflight.With(t.Context(), s.Inflight().Reservation())
	for _, ctx := range []context.Context{t.Context(), page} {
		clear(counted)
		for target, body := range map[string]string{"/api/v1/dlq/redrive": `{"queue":"q","consumerGroup":"g","all":true}`, "/api/v1/dlq/redrive/stream": `{"queue":"q","consumerGroup":"g","all":true}`, "/api/v1/dlq": ""} {
			method := http.MethodGet
			if body != "" {
				method = http.MethodPost
			}
			apitest.SendOK(t, s, apitest.Request(method, target, body).WithContext(ctx))
		}
		require.Equal(t, map[string]bool{"list": true, "redrive": false, "stream": false}, counted)
	}
}

// notedLetters records the contexts of its calls.
type notedLetters struct {
	operate.DeadLetters
	list, redrive, stream func(ctx context.Context)
}

func (l notedLetters) List(ctx context.Context, f deadletter.Filter, after deadletter.ListKey, limit, offset int64) (deadletter.Page, error) {
	l.list(ctx)
	return l.DeadLetters.List(ctx, f, after, limit, offset)
}

func (l notedLetters) Redrive(ctx context.Context, f deadletter.Filter, rate int64, dryRun bool) (deadletter.Result, error) {
	l.redrive(ctx)
	return l.DeadLetters.Redrive(ctx, f, rate, dryRun)
}

func (l notedLetters) RedriveAll(ctx context.Context, f deadletter.Filter, rate int64, report func(deadletter.Result) error) (deadletter.Result, error) {
	l.stream(ctx)
	return l.DeadLetters.RedriveAll(ctx, f, rate, report)
}

// people is an Authenticator. A token is the name of its subject, and every subject is an admin.
type people struct{}

func (people) NextRevocation() <-chan struct{} { return nil }
func (people) Skips(string) bool               { return false }

func (people) Verify(_ context.Context, token string) (*identity.Principal, error) {
	return &identity.Principal{Subject: token, Role: identity.Admin}, nil
}

// Three large bodies that stop arriving must not block pushes. A push of another subject succeeds at once, and a push of the same
// subject succeeds after a while. At least one slow body gets 503.
func TestSlowBodiesDoNotBlockPushes(t *testing.T) {
	t.Parallel()
	for _, sender := range []string{"another", "slow"} {
		t.Run(sender, func(t *testing.T) {
			t.Parallel()
			s, _ := apitest.Server(&apitest.Fakes{}, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Auth = people{} })
			c := serve(t, s)
			const size = 9 << 20
			begin := `{"items":[{"queue":"q","payload":"`
			begin += strings.Repeat("x", size-len(begin))
			var slow []*connection
			for range 3 {
				conn := c.dial()
				conn.send("POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer slow\r\nContent-Length: %d\r\n\r\n%s", size+1, begin)
				slow = append(slow, conn)
			}
			require.Eventually(t, func() bool { return s.Inflight().Used() == 3*size*inflight.BodyCopies }, 30*time.Second, time.Millisecond)
			body := `{"items":[{"queue":"q","payload":"` + strings.Repeat("x", 8<<20) + `"}]}`
			push := func() int {
				conn := c.dial()
				conn.send("POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", sender, len(body), body)
				return conn.answer().status
			}
			if sender == "another" {
				require.Equal(t, http.StatusCreated, push())
			} else {
				require.Eventually(t, func() bool { return push() == http.StatusCreated }, 15*time.Second, 100*time.Millisecond)
			}
			lost := 0
			// The server takes the memory of a slow body only if a push needs it. The other slow bodies can be completed.
			for _, conn := range slow {
				_, _ = fmt.Fprint(conn, "x")
				if answer := conn.answer(); answer.status == http.StatusServiceUnavailable {
					lost++
					require.Contains(t, answer.body, "http.max_inflight_bytes")
				}
			}
			require.Positive(t, lost)
			require.Eventually(t, func() bool { return s.Inflight().Used() == 0 }, 30*time.Second, time.Millisecond)
		})
	}
}

// Each route limits its body to the size that it needs. A larger body is refused.
func TestBodiesAreNoLargerThanTheirRouteNeeds(t *testing.T) {
	t.Parallel()
	small, keys, messages := 64<<10, 1<<20, 16<<20
	limits := map[string]int{
		"/api/v1/push": messages, "/api/v1/ack": messages, "/api/v1/ack/batch": messages, "/api/v1/transaction": messages,
		"/api/v1/traces": messages, "/streams/v1/cycle": messages, "/streams/v1/state/get": keys,
	}
	s, _ := apitest.Server(&apitest.Fakes{})
	reading := 0
	for _, route := range s.Routes() {
		if route.Method == http.MethodHead {
			continue
		}
		limit, listed := limits[route.Path]
		if !listed || route.Method != http.MethodPost {
			limit = small
		}
		f := &apitest.Fakes{}
		s, _ := apitest.Server(f)
		begin := func(size int) int {
			return apitest.Send(s, apitest.Request(route.Method, pathOf(route.Path), strings.Repeat(" ", size))).Code
		}
		if begin(limit) == begin(limit+1) {
			require.False(t, listed && route.Method == http.MethodPost, route.Path)
			continue // the route reads no body
		}
		reading++
		require.Equal(t, http.StatusRequestEntityTooLarge, begin(limit+1), route.Path)
	}
	require.Greater(t, reading, len(limits))
}
