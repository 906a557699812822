package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestErrorCodesBecomeStatuses(t *testing.T) {
	for code, status := range map[queue.Code]int{
		"invalid": 400, "too_large": 413, "too_slow": 408, "not_found": 404, "lease_gone": 409, "queue_full": 429,
		"unavailable": 503, "overloaded": 503, "undeliverable": 500, "internal": 500,
	} {
		coded := &queue.Error{Code: code, Message: "say it like this", Err: errors.New("the cause")}
		rec := apitest.Call(apitest.Failing(fmt.Errorf("pushing: %w", coded)), "POST", "/api/v1/push", apitest.OnePush)
		text := apitest.RequireError(t, rec, status)
		require.NotContains(t, text, "the cause", "%s", code)
		require.NotContains(t, text, "pushing", "%s", code)
		if code != queue.CodeInternal {
			require.Equal(t, "say it like this", text)
		}
		require.Empty(t, rec.Header().Get("Retry-After"), "an error without RetryAfter has no header Retry-After")
	}
}

func TestInternalErrorIsLoggedUnderItsID(t *testing.T) {
	for name, err := range map[string]error{
		"without a code": errors.New("secret: relation does not exist"),
		"with a code":    &queue.Error{Code: queue.CodeInternal, Message: "secret", Err: errors.New("secret: relation does not exist")},
	} {
		s, logs := apitest.Server(apitest.Failing(err))
		rec := apitest.Send(s, httptest.NewRequest("POST", "/api/v1/push", strings.NewReader(apitest.OnePush)))
		text := apitest.RequireError(t, rec, http.StatusInternalServerError)
		require.NotContains(t, rec.Body.String(), "secret", name)
		_, id, found := strings.Cut(text, "error_id ")
		require.True(t, found, text)
		_, parse := queue.ParseID(id)
		require.NoError(t, parse)

		entries := logs.FilterField(zap.String("error_id", id)).All()
		require.Len(t, entries, 1, "the log has the id")
		require.Equal(t, zap.ErrorLevel, entries[0].Level)
		require.Contains(t, entries[0].ContextMap()["error"], "secret: relation does not exist")
		require.Equal(t, "/api/v1/push", entries[0].ContextMap()["path"])

		other := apitest.RequireError(t, apitest.Send(s, httptest.NewRequest("POST", "/api/v1/push", strings.NewReader(apitest.OnePush))), 500)
		require.NotEqual(t, text, other, "each failure has its own id")
	}
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for _, code := range []queue.Code{queue.CodeUnavailable, queue.CodeOverloaded} {
		for after, want := range map[time.Duration]string{
			time.Second: "1", time.Millisecond: "1", 1001 * time.Millisecond: "2", 2 * time.Minute: "120", 0: "",
		} {
			rec := apitest.Call(apitest.Failing(&queue.Error{Code: code, Message: "later", RetryAfter: after}), "POST", "/api/v1/push", apitest.OnePush)
			apitest.RequireError(t, rec, http.StatusServiceUnavailable)
			require.Equal(t, want, rec.Header().Get("Retry-After"), "%s", after)
		}
	}
}

func TestErrorTextIsEscapedInJSON(t *testing.T) {
	const text = "a \"quoted\" \\ name\nand \x01 and ü"
	rec := apitest.Call(apitest.Failing(&queue.Error{Code: queue.CodeInvalid, Message: text}), "POST", "/api/v1/push", apitest.OnePush)
	require.Equal(t, text, apitest.RequireError(t, rec, http.StatusBadRequest))
	require.Equal(t, strconv.Itoa(rec.Body.Len()), rec.Header().Get("Content-Length"))
}

// If a client has disconnected, its request counts with status 499. A failure of the database counts even then.
func TestDisconnectedClientGetsNoAnswer(t *testing.T) {
	unavailable := func(cause error) error {
		return &queue.Error{Code: queue.CodeUnavailable, Message: "later", Err: cause}
	}
	for name, c := range map[string]struct {
		err     error
		counted string
		logged  zapcore.Level
	}{
		"only disconnected": {err: context.Canceled, logged: zap.DebugLevel},
		"canceled query":    {err: unavailable(context.Canceled), logged: zap.DebugLevel},
		"a time-out":        {err: unavailable(context.DeadlineExceeded), counted: "unavailable", logged: zap.WarnLevel},
		"a bug":             {err: errors.New("a bug"), counted: "internal", logged: zap.ErrorLevel},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s, logs := apitest.Server(apitest.Failing(c.err))
		cancel()
		rec := apitest.Send(s, httptest.NewRequestWithContext(ctx, "POST", "/api/v1/push", strings.NewReader(apitest.OnePush)))
		require.Zero(t, rec.Body.Len(), name)
		worst := zap.DebugLevel
		for _, entry := range logs.All() {
			worst = max(worst, entry.Level)
		}
		require.Equal(t, c.logged, worst, name)
		require.Equal(t, 1, logs.FilterMessageSnippet("a client disconnected").FilterLevelExact(zap.DebugLevel).Len(), name)

		metrics := apitest.SendOK(t, s, apitest.Request("GET", "/metrics/prometheus", "")).Body.String()
		require.Contains(t, metrics, `belfry_http_request_duration_seconds_count{route="/api/v1/push",status="499"} 1`, name)
		for _, code := range []string{"unavailable", "internal"} {
			count := 0
			if code == c.counted {
				count = 1
			}
			require.Contains(t, metrics, fmt.Sprintf("belfry_errors_total{code=%q} %d\n", code, count), name)
		}
	}
}

// If a query was canceled although the client is connected, the answer must be an error. An
// answer without a status would be a 200.
func TestACanceledQueryIsAServerError(t *testing.T) {
	for name, err := range map[string]error{
		"unavailable": &queue.Error{Code: queue.CodeUnavailable, Message: "send it again", Err: context.Canceled},
		"bare":        fmt.Errorf("pushing: %w", context.Canceled),
	} {
		t.Run(name, func(t *testing.T) {
			rec := apitest.Call(apitest.Failing(err), "POST", "/api/v1/push", apitest.OnePush)
			require.GreaterOrEqual(t, rec.Code, 500, "the client is still connected and gets the status %d", rec.Code)
			apitest.RequireError(t, rec, rec.Code)
		})
	}
}

func TestUnknownRoutesAreJSONErrors(t *testing.T) {
	f := &apitest.Fakes{}
	require.Equal(t, "no such endpoint: GET /api/v1/nothing", apitest.RequireError(t, apitest.Call(f, "GET", "/api/v1/nothing", ""), 404))
	require.Equal(t, "GET is not allowed on /api/v1/push", apitest.RequireError(t, apitest.Call(f, "GET", "/api/v1/push", ""), 405))
	require.False(t, f.Reached())
}

// Every answer has a request id, for any route and status. Each log line about the request has the id too.
func TestEveryAnswerHasARequestID(t *testing.T) {
	f := &apitest.Fakes{Push: func([]queue.PushItem) ([]queue.PushResult, error) { return nil, errors.New("torn") }}
	s, logs := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.AccessLog = true })
	for target, method := range map[string]string{
		"/livez": http.MethodGet, "/no/such": http.MethodGet, "/api/v1/pop": http.MethodOptions, "/api/v1/ack": http.MethodPut,
		"/api/v1/whoami": http.MethodGet, "/api/v1/push?x=secret": http.MethodPost, "/api/v1/configure": http.MethodPost,
	} {
		require.NotEmpty(t, apitest.Send(s, apitest.Request(method, target, "")).Header().Get("X-Request-Id"), target)
	}
	logs.TakeAll()
	r := apitest.Request(http.MethodPost, "/api/v1/push?x=secret", apitest.OnePush)
	r.Header.Set("X-Request-Id", "r-1")
	require.Equal(t, "r-1", apitest.Send(s, r).Header().Get("X-Request-Id"))
	require.Equal(t, 2, logs.Len(), "the error and the access log")
	for _, line := range logs.All() {
		require.Equal(t, "r-1", line.ContextMap()["request_id"], line.Message)
	}
	access := logs.FilterMessage("a request was answered").All()
	require.Len(t, access, 1)
	require.Equal(t, []any{"/api/v1/push", int64(http.StatusInternalServerError)}, []any{access[0].ContextMap()["path"], access[0].ContextMap()["status"]})
}

// tokens is an Authenticator that skips one route. A token is the name of its role.
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

// The test sends requests to each route with each role, with an unknown token and without a token. Only requests
// that have the right reach the fakes behind the handlers.
func TestEveryRouteRequiresItsRight(t *testing.T) {
	// The expected roles of each right: no role, read-only, read-write and admin.
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
		require.Contains(t, open, right, "%s %s has no right", route.Method, route.Path)
		if route.Right == httpapi.Public {
			public[route.Path] = true
		}
		for _, token := range []string{"", "foreign", "none", "read-only", "read-write", "admin"} {
			t.Run(fmt.Sprintf("%s %s %s", route.Method, route.Path, token), func(t *testing.T) {
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
				least := map[httpapi.Right]string{httpapi.Read: "read-only", httpapi.Write: "read-write", httpapi.Administer: "admin"}[right]
				want, text := http.StatusForbidden, "Insufficient permissions: this request needs the role "+least+", and the caller has the role "+token
				switch token {
				case "none":
					text = strings.Replace(text, "the caller has the role none", "the token has no role", 1)
				case "":
					want, text = http.StatusUnauthorized, "Invalid token signature" // the error of the fake for an empty token
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

// The subject of the token is the producer of a push, even if the body names another producer. It is also the caller of a pop.
func TestTheSubjectOfATokenIsTheProducer(t *testing.T) {
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

// Without a token, the principal of the client certificate counts. A token has precedence.
func TestTheClientCertificateIsThePrincipalWithoutAToken(t *testing.T) {
	s, _ := apitest.Server(&apitest.Fakes{}, withTokens)
	for token, want := range map[string]int{"": http.StatusOK, "none": http.StatusForbidden, "foreign": http.StatusUnauthorized} {
		request := apitest.Request("GET", "/api/v1/status/queues", "")
		request = request.WithContext(identity.With(request.Context(), &identity.Principal{Subject: "CN=anna", Role: identity.ReadOnly}))
		request.Header.Set("Authorization", token)
		require.Equal(t, want, apitest.Send(s, request).Code, token)
	}
}

// An entry has the principal, the address behind trusted proxies, and the request id of the client or a new one.
func TestAnEntryOfTheAuditHasThePrincipalAndTheAddress(t *testing.T) {
	for sent, kept := range map[string]bool{
		"": false, "r-1 (deploy)": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "caf\xc3\xa9": false, "a\tb": false,
	} {
		f := &apitest.Fakes{}
		s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.TrustedProxies = []string{"192.0.2.0/24"} })
		r := apitest.Request(http.MethodDelete, "/api/v1/resources/queues/orders", "")
		r.Header.Set("X-Request-Id", sent)
		r.Header.Set("X-Forwarded-For", "10.1.2.3")
		r.RemoteAddr = "192.0.2.7:1234"
		r = r.WithContext(identity.With(r.Context(), &identity.Principal{Subject: "an\x00na", TokenID: "t\xff1"}))
		rec := apitest.SendOK(t, s, r)
		require.Len(t, f.Audit.Entries, 1)
		entry := f.Audit.Entries[0]
		require.Equal(t, entry.RequestID, rec.Header().Get("X-Request-Id"))
		require.Equal(t, kept, entry.RequestID == sent, "%q", sent)
		require.NotEmpty(t, entry.RequestID)
		require.Equal(t, []string{"10.1.2.3", "an\uFFFDna", "t\uFFFD1", "ok"}, []string{entry.Address, entry.Subject, entry.TokenID, f.Audit.Results[0]})
	}
}
