package httpapi_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// Every answer has a request id, whatever its route and status, and so has each log line about its request.
func TestEveryAnswerHasARequestID(t *testing.T) {
	t.Parallel()
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
