package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// GET /metrics counts requests and messages, and a request that failed because of the database is counted.
func TestJSONMetricsHaveTrueValues(t *testing.T) {
	t.Parallel()
	counts := history.NewRecorder(10)
	f := apitest.Failing(&queue.Error{Code: queue.CodeUnavailable, Err: errors.New("it is away")})
	f.Metrics = httpapi.NewMetrics(prometheus.NewRegistry(), counts)
	s, _ := apitest.Server(f)
	f.Metrics.Pushed(make([]queue.PushItem, 30), make([]queue.PushResult, 30))
	for range 3 {
		require.Equal(t, http.StatusServiceUnavailable, apitest.Send(s, apitest.Request("POST", "/api/v1/push", apitest.OnePush)).Code)
	}
	require.EqualValues(t, 3, counts.DatabaseErrors())
	var body struct {
		Uptime   float64
		Requests struct{ Total, Rate float64 }
		Messages struct{ Total, Rate float64 }
		Memory   struct{ Rss, HeapUsed float64 }
		CPU      struct{ User float64 }
	}
	require.NoError(t, json.Unmarshal(apitest.SendOK(t, s, apitest.Request("GET", "/metrics", "")).Body.Bytes(), &body))
	require.Positive(t, body.Uptime)
	require.InDelta(t, 3, body.Requests.Total, 0)
	require.InDelta(t, .05, body.Requests.Rate, 0)
	require.InDelta(t, 30, body.Messages.Total, 0)
	require.InDelta(t, .5, body.Messages.Rate, 0)
	require.Greater(t, body.Memory.Rss, body.Memory.HeapUsed)
	require.Positive(t, body.CPU.User)
}
