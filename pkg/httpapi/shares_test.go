package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/test/apitest"
)

// people is an Authenticator whose tokens are the names of their subjects. All of them may do everything.
type people struct{}

func (people) NextRevocation() <-chan struct{} { return nil }
func (people) Skips(string) bool               { return false }

func (people) Verify(_ context.Context, token string) (*identity.Principal, error) {
	return &identity.Principal{Subject: token, Role: identity.Admin}, nil
}

// Three large bodies that do not go on stop no push: not of another subject, and after a while not of the same one. They
// are answered with 503.
func TestSlowBodiesStopNoPush(t *testing.T) {
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
			for _, conn := range slow { // a body that did not lose its place arrives
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

// No body of any route takes more memory than the route needs. A larger one is refused.
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
			continue // it reads no body
		}
		reading++
		require.Equal(t, http.StatusRequestEntityTooLarge, begin(limit+1), route.Path)
	}
	require.Greater(t, reading, len(limits))
}
