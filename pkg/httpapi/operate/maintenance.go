package operate

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/maintenance"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// SetMaintenance serves POST /api/v1/system/maintenance.
func (h *Handlers) SetMaintenance(p *wire.Params) (any, error) {
	enabled, err := h.setSwitch(p, maintenance.Push)
	healthy, message := h.Spool.Healthy() == nil, "Push maintenance is off: the instances now move the messages from their disks to the database"
	switch {
	case enabled && healthy:
		message = "Push maintenance is on: the instances keep pushes on their disks until push maintenance ends"
	case enabled:
		message = "Push maintenance is on: this instance cannot use its spool.dir, so it refuses pushes with 503 until push maintenance ends"
	}
	return api.PushMaintenanceSet{
		MaintenanceMode: enabled, BufferedMessages: int64(h.Spool.Stats().Messages), BufferHealthy: healthy, Message: message,
	}, err
}

// RetryRejected serves POST /api/v1/system/maintenance/rejected/retry.
func (h *Handlers) RetryRejected(p *wire.Params) (any, error) {
	audit.Begin(p.Ctx(), audit.Target{}, nil)
	n, err := h.Spool.Retry()
	return api.RejectedChanged{Success: err == nil, Messages: int64(n)}, err
}

// DiscardRejected serves DELETE /api/v1/system/maintenance/rejected.
func (h *Handlers) DiscardRejected(p *wire.Params) (any, error) {
	audit.Begin(p.Ctx(), audit.Target{}, nil)
	n, err := h.Spool.Discard()
	return api.RejectedChanged{Success: err == nil, Messages: int64(n)}, err
}

// SetPopMaintenance serves POST /api/v1/system/maintenance/pop.
func (h *Handlers) SetPopMaintenance(p *wire.Params) (any, error) {
	enabled, err := h.setSwitch(p, maintenance.Pop)
	return observe.PopMaintenanceFields(enabled), err
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
