package httpapi_test

import (
	"context"
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

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestErrorCodesBecomeStatuses(t *testing.T) {
	t.Parallel()
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
		require.Empty(t, rec.Header().Get("Retry-After"), "the error has no RetryAfter")
	}
}

func TestInternalErrorIsLoggedUnderItsID(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	const text = "a \"quoted\" \\ name\nand \x01 and ü"
	rec := apitest.Call(apitest.Failing(&queue.Error{Code: queue.CodeInvalid, Message: text}), "POST", "/api/v1/push", apitest.OnePush)
	require.Equal(t, text, apitest.RequireError(t, rec, http.StatusBadRequest))
	require.Equal(t, strconv.Itoa(rec.Body.Len()), rec.Header().Get("Content-Length"))
}

// A client that left is counted as 499. A failure of the database is counted even if its client left.
func TestDisconnectedClientGetsNoAnswer(t *testing.T) {
	t.Parallel()
	unavailable := func(cause error) error {
		return &queue.Error{Code: queue.CodeUnavailable, Message: "later", Err: cause}
	}
	for name, c := range map[string]struct {
		err     error
		counted string
		logged  zapcore.Level
	}{
		"only left":           {err: context.Canceled, logged: zap.DebugLevel},
		"left before its row": {err: unavailable(context.Canceled), logged: zap.DebugLevel},
		"a time-out":          {err: unavailable(context.DeadlineExceeded), counted: "unavailable", logged: zap.WarnLevel},
		"a bug":               {err: errors.New("a bug"), counted: "internal", logged: zap.ErrorLevel},
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
		require.Equal(t, 1, logs.FilterMessageSnippet("a client left").FilterLevelExact(zap.DebugLevel).Len(), name)

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

// A cancellation that the client did not cause must not look like a success: an
// answer without a status is a 200.
func TestCancellationBelowIsAServerError(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"unavailable": &queue.Error{Code: queue.CodeUnavailable, Message: "send it again", Err: context.Canceled},
		"bare":        fmt.Errorf("pushing: %w", context.Canceled),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := apitest.Call(apitest.Failing(err), "POST", "/api/v1/push", apitest.OnePush)
			require.GreaterOrEqual(t, rec.Code, 500, "the client is still there and believes in %d", rec.Code)
			apitest.RequireError(t, rec, rec.Code)
		})
	}
}

func TestUnknownRoutesAreJSONErrors(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	require.Equal(t, "no such endpoint: GET /api/v1/nothing", apitest.RequireError(t, apitest.Call(f, "GET", "/api/v1/nothing", ""), 404))
	require.Equal(t, "GET is not allowed on /api/v1/push", apitest.RequireError(t, apitest.Call(f, "GET", "/api/v1/push", ""), 405))
	require.False(t, f.Reached())
}
