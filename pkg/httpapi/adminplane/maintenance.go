package adminplane

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/maintenance"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Maintenance serves GET /api/v1/system/maintenance. It reads the switches and what the spools of the
// other instances hold from the database. Without the database it answers with the last known switches
// and the spool of this instance.
func (h *Handlers) Maintenance(p *wire.Params) (any, error) {
	loaded := h.Switches.Load(p.Ctx())
	spools, listed := h.Spool.Everywhere(p.Ctx())
	if err := p.Ctx().Err(); err != nil {
		return nil, err
	}
	var all spool.Stats
	for _, of := range spools {
		all.Messages += of.Messages
		all.Rejected += of.Rejected
		all.Bytes += of.Bytes
	}
	return wire.Fields{
		"maintenanceMode", h.Switches.PushPaused() != nil, "popMaintenanceMode", h.Switches.PopPaused() != nil,
		"bufferedMessages", all.Messages, "bufferHealthy", h.Spool.Healthy() == nil,
		"bufferStats", wire.Fields{
			"pendingCount", all.Messages, "failedCount", all.Rejected, "dbHealthy", loaded == nil && listed == nil,
			"failedFiles", wire.Fields{"count", 0, "totalBytes", 0, "totalMB", 0, "failoverCount", 0, "qos0Count", 0},
		},
		"buffers", each(spools, heldRow),
	}, nil
}

func heldRow(of *spool.Held) wire.Fields {
	var id any
	if !of.ID.IsZero() {
		id = of.ID
	}
	return wire.Fields{
		"id", id, "host", of.Host, "messages", of.Messages, "rejected", of.Rejected, "bytes", of.Bytes, "changedAt", of.ChangedAt,
	}
}

// SetMaintenance serves POST /api/v1/system/maintenance.
func (h *Handlers) SetMaintenance(p *wire.Params) (any, error) {
	enabled, err := h.setSwitch(p, maintenance.Push)
	healthy, message := h.Spool.Healthy() == nil, "Push maintenance is off: the messages on disk are stored now"
	switch {
	case enabled && healthy:
		message = "Push maintenance is on: pushes are kept on the disks of the instances until it ends"
	case enabled:
		message = "Push maintenance is on: this instance cannot use its spool.dir, so it refuses pushes with 503 until it ends"
	}
	return wire.Fields{
		"maintenanceMode", enabled, "bufferedMessages", h.Spool.Stats().Messages, "bufferHealthy", healthy, "message", message,
	}, err
}

// Buffers serves GET /api/v1/status/buffers.
func (h *Handlers) Buffers(p *wire.Params) (any, error) {
	held := h.Spool.Stats()
	return wire.Fields{
		"pending", held.Messages, "failed", held.Rejected, "bytes", held.Bytes, "dbHealthy", h.Switches.Load(p.Ctx()) == nil,
		"bufferHealthy", h.Spool.Healthy() == nil, "worker", 0,
	}, p.Ctx().Err()
}

// maxRejections bounds the answer of Rejected.
const maxRejections = 1000

// Rejected serves GET /api/v1/system/maintenance/rejected. Queen MQ does not have it.
func (h *Handlers) Rejected(p *wire.Params) (any, error) {
	limit := wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), 100), maxRejections)
	found, err := h.Spool.Rejections(p.Ctx(), limit)
	return wire.Fields{"messages", each(found, rejectedRow), "total", h.Spool.Stats().Rejected}, err
}

func rejectedRow(r *spool.Rejection) wire.Fields {
	return wire.Fields{
		"queue", r.Queue, "partition", r.Partition, "transactionId", r.TransactionID, "producerSub", orNull(r.ProducerSub),
		"data", wire.Stored(r.Payload), "reason", r.Reason, "rejectedAt", r.At,
	}
}

// RetryRejected serves POST /api/v1/system/maintenance/rejected/retry.
func (h *Handlers) RetryRejected(p *wire.Params) (any, error) {
	audit.Begin(p.Ctx(), audit.Target{}, nil)
	n, err := h.Spool.Retry()
	return wire.Fields{"success", err == nil, "messages", n}, err
}

// DiscardRejected serves DELETE /api/v1/system/maintenance/rejected.
func (h *Handlers) DiscardRejected(p *wire.Params) (any, error) {
	audit.Begin(p.Ctx(), audit.Target{}, nil)
	n, err := h.Spool.Discard()
	return wire.Fields{"success", err == nil, "messages", n}, err
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
