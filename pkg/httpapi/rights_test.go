package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// tokens is an Authenticator. Each role is its own token, and it skips one route.
type tokens struct{}

func (tokens) NextRevocation() <-chan struct{} { return nil }

func (tokens) Verify(_ context.Context, token string) (*identity.Principal, error) {
	for _, role := range []identity.Role{identity.NoRole, identity.ReadOnly, identity.ReadWrite, identity.Admin} {
		if token == role.String() {
			return &identity.Principal{Subject: "anna", TokenID: "7", Role: role}, nil
		}
	}
	return nil, &queue.Error{Code: queue.CodeUnauthenticated, Message: "Invalid token signature"}
}

func (tokens) Skips(route string) bool { return route == "/api/v1/resources/tasks" }

func withTokens(_ *httpapi.Config, deps *httpapi.Deps) { deps.Auth = tokens{} }

// pathOf returns the path of a route with values for its parameters.
func pathOf(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, isParam := strings.CutPrefix(part, ":"); isParam {
			parts[i] = "x"
			if name == "partitionId" || name == "leaseId" {
				parts[i] = apitest.IDOne.String()
			}
		}
	}
	return strings.Join(parts, "/")
}

// Each route is tried with each role, with a foreign token and without one. Only requests with the right
// reach what is below the handlers.
func TestEveryRouteAsksForItsRight(t *testing.T) {
	t.Parallel()
	// The contract: what a token with no role, read-only, read-write and admin may do.
	open := map[httpapi.Right]map[string]bool{
		httpapi.Public:     {"": true, "foreign": true, "none": true, "read-only": true, "read-write": true, "admin": true},
		httpapi.AnyRole:    {"none": true, "read-only": true, "read-write": true, "admin": true},
		httpapi.Read:       {"read-only": true, "read-write": true, "admin": true},
		httpapi.Write:      {"read-write": true, "admin": true},
		httpapi.Administer: {"admin": true},
	}
	public := map[string]bool{}
	s, _ := apitest.Server(&apitest.Fakes{}, withTokens)
	for _, route := range s.Routes() {
		right := route.Right.Least()
		require.Contains(t, open, right, "%s %s states no right", route.Method, route.Path)
		if route.Right == httpapi.Public {
			public[route.Path] = true
		}
		for _, token := range []string{"", "foreign", "none", "read-only", "read-write", "admin"} {
			t.Run(fmt.Sprintf("%s %s %s", route.Method, route.Path, token), func(t *testing.T) {
				t.Parallel()
				f := &apitest.Fakes{}
				s, _ := apitest.Server(f, withTokens)
				request := apitest.Request(route.Method, pathOf(route.Path), "")
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				answer := apitest.Send(s, request)
				if open[right][token] || (tokens{}).Skips(route.Path) {
					require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, answer.Code)
					return
				}
				want, text := http.StatusForbidden, "Insufficient permissions"
				switch token {
				case "":
					want, text = http.StatusUnauthorized, "Invalid token signature" // of the fake, for an empty token
				case "foreign":
					want, text = http.StatusUnauthorized, "Invalid token signature"
				}
				require.Equal(t, text, apitest.RequireError(t, answer, want))
				require.Equal(t, want == http.StatusUnauthorized, answer.Header().Get("WWW-Authenticate") == "Bearer")
				require.False(t, f.Reached())
			})
		}
	}
	require.Equal(t, map[string]bool{"/livez": true, "/readyz": true, "/health": true, "/metrics": true, "/metrics/prometheus": true, "/openapi.json": true}, public)
}

// The subject of the token is the producer, whatever the body says, and the caller of a pop.
func TestTheSubjectOfATokenIsTheProducer(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	s, _ := apitest.Server(f, withTokens)
	send := func(method, target, body string) {
		request := apitest.Request(method, target, body)
		request.Header.Set("Authorization", "read-write")
		require.Less(t, apitest.Send(s, request).Code, 300)
	}
	send("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"producerSub":"bert"},{"queue":"q","payload":2}]}`)
	require.Len(t, f.Pushed, 1)
	for _, item := range f.Pushed[0] {
		require.Equal(t, "anna", item.ProducerSub)
	}
	send("POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"q","payload":1,"producerSub":"bert"}]}]}`)
	require.Equal(t, "anna", f.Transactions[0].Operations[0].Push.ProducerSub)
	send("GET", "/api/v1/pop/queue/q", "")
	require.Equal(t, "subject anna", f.Popped[0].Caller)
}

func TestWhoAmI(t *testing.T) {
	t.Parallel()
	who := func(edits ...func(*httpapi.Config, *httpapi.Deps)) (answer map[string]any) {
		s, _ := apitest.Server(&apitest.Fakes{}, edits...)
		request := apitest.Request("GET", "/api/v1/whoami", "")
		request.Header.Set("Authorization", "Bearer none")
		require.NoError(t, json.Unmarshal(apitest.Send(s, request).Body.Bytes(), &answer))
		return answer
	}
	require.Equal(t, map[string]any{"authenticated": true, "subject": "anna", "role": "none", "tokenId": "7", "expiresAt": nil, "grants": nil}, who(withTokens))
	require.Equal(t, map[string]any{"authenticated": false, "subject": nil, "role": "admin", "tokenId": nil, "expiresAt": nil, "grants": nil}, who())
}

// A principal of the connection counts without a token, and a token has precedence.
func TestAPrincipalOfTheConnection(t *testing.T) {
	t.Parallel()
	s, _ := apitest.Server(&apitest.Fakes{}, withTokens)
	for token, want := range map[string]int{"": http.StatusOK, "none": http.StatusForbidden, "foreign": http.StatusUnauthorized} {
		request := apitest.Request("GET", "/api/v1/status/queues", "")
		request = request.WithContext(identity.With(request.Context(), &identity.Principal{Subject: "CN=anna", Role: identity.ReadOnly}))
		request.Header.Set("Authorization", token)
		require.Equal(t, want, apitest.Send(s, request).Code, token)
	}
}
