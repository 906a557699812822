package adminplane

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/audit"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/maintenance"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Maintenance serves GET /api/v1/system/maintenance. It reads the switches from the database. Without
// the database it answers with the last known ones.
func (h *Handlers) Maintenance(p *wire.Params) (any, error) {
	healthy := h.Switches.Load(p.Ctx()) == nil
	if err := p.Ctx().Err(); err != nil {
		return nil, err
	}
	return wire.Fields{
		"maintenanceMode", h.Switches.PushPaused(), "popMaintenanceMode", h.Switches.PopPaused() != nil,
		"bufferedMessages", 0, "bufferHealthy", false,
		"bufferStats", wire.Fields{
			"pendingCount", 0, "failedCount", 0, "dbHealthy", healthy,
			"failedFiles", wire.Fields{"count", 0, "totalBytes", 0, "totalMB", 0, "failoverCount", 0, "qos0Count", 0},
		},
	}, nil
}

// SetMaintenance serves POST /api/v1/system/maintenance.
func (h *Handlers) SetMaintenance(p *wire.Params) (any, error) {
	enabled, err := h.setSwitch(p, maintenance.Push)
	message := "Push maintenance is off"
	if enabled {
		message = "Push maintenance is on: pushes are refused with 503 until it ends"
	}
	return wire.Fields{"maintenanceMode", enabled, "bufferedMessages", 0, "bufferHealthy", false, "message", message}, err
}

// PopMaintenance serves GET /api/v1/system/maintenance/pop.
func (h *Handlers) PopMaintenance(p *wire.Params) (any, error) {
	err := h.Switches.Load(p.Ctx())
	return popMaintenance(h.Switches.PopPaused() != nil), err
}

// SetPopMaintenance serves POST /api/v1/system/maintenance/pop.
func (h *Handlers) SetPopMaintenance(p *wire.Params) (any, error) {
	enabled, err := h.setSwitch(p, maintenance.Pop)
	return popMaintenance(enabled), err
}

func popMaintenance(enabled bool) wire.Fields {
	message := "Pop maintenance is off"
	if enabled {
		message = "Pop maintenance is on: pops are answered without messages until it ends"
	}
	return wire.Fields{"popMaintenanceMode", enabled, "message", message}
}

// setSwitch reads the body and turns a switch on or off.
func (h *Handlers) setSwitch(p *wire.Params, name maintenance.Switch) (enabled bool, err error) {
	var given bool
	err = h.Bodies.ReadObject(p, func(member string, value jsontext.Value) error {
		if member == "enabled" {
			enabled, given = value.Kind() == 't', value.Kind() == 't' || value.Kind() == 'f'
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if !given {
		return false, queue.Invalidf("enabled (boolean) is required")
	}
	audit.Begin(p.Ctx(), audit.Target{}, audit.Parameters{"enabled": enabled})
	return enabled, h.Switches.Set(p.Ctx(), name, enabled)
}
