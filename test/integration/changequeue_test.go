package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// PATCH must change only the settings that its body names, and must not create a queue.
func TestPatchChangesOnlySettingsInItsBody(t *testing.T) {
	t.Parallel()
	c := start(t, proven).client(t)
	patch := func(queue, body string) call {
		return call{Method: http.MethodPatch, Target: "/api/v1/resources/queues/" + queue, Body: body}
	}
	type changed struct {
		Namespace, Task string
		Options         map[string]any
		Warnings        []string
	}
	c.send1(post("/api/v1/configure", `{"queue":"q","namespace":"shop","task":"orders","options":{"retryLimit":3,"maxDeliveries":4}}`))
	now := ask[changed](c.loose(), patch("q", `{"options":{"leaseTime":60,"leasetime":1}}`)).ok(http.StatusOK)
	require.Equal(t, []any{"shop", "orders"}, []any{now.Namespace, now.Task})
	require.Equal(t, []any{60.0, 3.0, 4.0}, []any{now.Options["leaseTime"], now.Options["retryLimit"], now.Options["maxDeliveries"]})
	require.Equal(t, []string{"options.leasetime is unknown and was dropped: did you mean leaseTime?"}, now.Warnings)
	now = ask[changed](c, patch("q", `{"task":"","namespace":null}`)).ok(http.StatusOK)
	require.Equal(t, []any{"shop", "", 60.0}, []any{now.Namespace, now.Task, now.Options["leaseTime"]})
	ask[any](c.loose(), patch("q", `{"leaseTime":1}`)).refused("leaseTime is unknown: send namespace, task or options")
	ask[any](c, patch("none", `{"options":{}}`)).ok(http.StatusNotFound)
	ask[any](c, get("/api/v1/resources/queues/none")).ok(http.StatusNotFound)
}
