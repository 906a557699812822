package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const maintenancePath = "/api/v1/system/maintenance"

type maintenanceState struct {
	MaintenanceMode, PopMaintenanceMode bool
	BufferedMessages                    int
	BufferHealthy                       bool
	BufferStats                         struct {
		DBHealthy   bool
		FailedCount int
	}
}

type sharedState struct {
	Running         bool
	MaintenanceMode bool `json:"maintenance_mode"`
	Health          struct {
		Alive int `json:"servers_alive"`
	} `json:"server_health"`
}

func (c client) maintenance() maintenanceState {
	c.t.Helper()
	return ask[maintenanceState](c, get(maintenancePath)).ok(http.StatusOK)
}

func (c client) switchTo(path, enabled string) {
	c.t.Helper()
	ask[any](c, post(path, `{"enabled":`+enabled+`}`)).ok(http.StatusOK)
}

// A maintenance switch that is set on one instance must apply on another instance, also after a restart, until it is
// cleared.
func TestMaintenanceHoldsOnEveryInstance(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	here, other := startOn(t, dsn).client(t), startOn(t, dsn)
	there := other.client(t)
	for _, body := range []string{`{}`, `{"enabled":1}`, `{"enabled":null}`} {
		ask[any](here.loose(), post(maintenancePath, body)).refused("enabled (boolean) is required")
		ask[any](here.loose(), post(maintenancePath+"/pop", body)).refused("enabled (boolean) is required")
	}
	here.pushIDs("q", "", "1", "2")

	here.switchTo(maintenancePath, "true")
	buffers := func(c client) bool {
		return c.push(item{Queue: "x", Payload: []byte("1")}).ok(http.StatusCreated)[0].Status == "buffered"
	}
	require.True(t, buffers(here))
	until(t, "the other instance keeps pushes on disk", func() bool { return buffers(there) })
	require.Equal(t, []string{"1"}, there.popIDs("q", "batch=1&autoAck=true"), "pops must continue during push maintenance")
	here.switchTo(maintenancePath+"/pop", "true")
	until(t, "the other instance answers without messages", func() bool { // a new group would receive a message
		return there.pop("q", "consumerGroup="+queue.NewID().String()).Status == http.StatusNoContent
	})
	require.Equal(t, http.StatusNoContent, there.pop("q", "").Status)
	require.Equal(t, http.StatusNoContent, there.popPartition("q", "Default", "").Status)

	until(t, "each instance knows the other one", func() bool {
		shared := ask[sharedState](there, get("/api/v1/system/shared-state")).ok(http.StatusOK)
		return shared.Running && shared.MaintenanceMode && shared.Health.Alive == 1
	})

	require.NoError(t, other.stop(t))
	there = startOn(t, dsn).client(t)
	state := there.maintenance()
	require.True(t, state.MaintenanceMode && state.PopMaintenanceMode && state.BufferStats.DBHealthy)
	require.True(t, buffers(there))
	require.Equal(t, http.StatusNoContent, there.pop("q", "wait=true&timeout=100").Status)

	waiting := there.begin(popCall("q", "wait=true&timeout=60000&autoAck=true"))
	there.untilWaiting(1)
	here.switchTo(maintenancePath+"/pop", "false")
	require.Equal(t, "2", waiting.delivery().ok(http.StatusOK).Messages[0].TransactionID, "a waiting pop must probe again when maintenance ends")
	here.switchTo(maintenancePath, "false")
	until(t, "the other instance stores pushes", func() bool { return !buffers(there) })
	require.False(t, here.maintenance().MaintenanceMode || here.maintenance().PopMaintenanceMode)
}
