package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
)

// The answers of the status endpoints must follow the OpenAPI document. The client checks every answer.
func TestStatusEndpointsFollowTheDocument(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	got := ask[map[string]any](c, get("/openapi.json"))
	require.Equal(t, "3.1.0", got.ok(http.StatusOK)["openapi"])
	require.Equal(t, openapi.WithVersion(app.Version()), got.Raw)
	require.Contains(t, string(got.Raw), `"version": "`+app.Version()+`"`)
	require.Equal(t, app.Version(), ask[map[string]any](c, get("/health")).ok(http.StatusOK)["version"])

	c.begin(popCall("waited", "wait=true&consumerGroup=g"))
	c.begin(popTaggedCall("wait=true&namespace=waited"))
	until(t, "both requests are listed", func() bool {
		status := ask[struct{ Groups []map[string]any }](c, get("/api/v1/status/dispatcher"))
		return len(status.ok(http.StatusOK).Groups) == 2
	})

	health, err := c.send(t.Context(), call{Method: http.MethodHead, Target: "/health"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, health.Status)
	require.Empty(t, health.Raw)
}
