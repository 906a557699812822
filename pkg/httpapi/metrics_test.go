package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/apitest"
)

func TestMetricsCountServedRequests(t *testing.T) {
	t.Parallel()
	s, _ := apitest.Server(&apitest.Fakes{Pop: apitest.Deliver(apitest.OneMessage())})
	apitest.SendOK(t, s, apitest.Request("GET", "/api/v1/pop/queue/orders", ""))
	rec := apitest.SendOK(t, s, apitest.Request("GET", "/metrics/prometheus", ""))
	require.Contains(t, rec.Body.String(), "belfry_pop_messages_total 1\n")
	require.Contains(t, rec.Body.String(), `belfry_http_request_duration_seconds_count{route="/api/v1/pop/queue/:queue",status="200"} 1`)
}
