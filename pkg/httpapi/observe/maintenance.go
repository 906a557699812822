package observe

import (
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
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
		"buffers", wire.Each(spools, heldRow),
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

// maxRejections bounds the answer of Rejected.
const maxRejections = 1000

// Rejected serves GET /api/v1/system/maintenance/rejected. Queen MQ does not have it.
func (h *Handlers) Rejected(p *wire.Params) (any, error) {
	limit := wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), 100), maxRejections)
	found, err := h.Spool.Rejections(p.Ctx(), limit)
	return wire.Fields{"messages", wire.Each(found, spoolRow), "total", h.Spool.Stats().Rejected}, err
}

func spoolRow(r *spool.Rejection) wire.Fields {
	return wire.Fields{
		"queue", r.Queue, "partition", r.Partition, "transactionId", r.TransactionID, "producerSub", wire.OrNull(r.ProducerSub),
		"data", wire.Stored(r.Payload), "reason", r.Reason, "rejectedAt", r.At,
	}
}

// PopMaintenance serves GET /api/v1/system/maintenance/pop.
func (h *Handlers) PopMaintenance(p *wire.Params) (any, error) {
	err := h.Switches.Load(p.Ctx())
	return PopMaintenanceFields(h.Switches.PopPaused() != nil), err
}

// PopMaintenanceFields are the answer of both routes of the switch.
func PopMaintenanceFields(enabled bool) wire.Fields {
	message := "Pop maintenance is off"
	if enabled {
		message = "Pop maintenance is on: pops are answered without messages until it ends"
	}
	return wire.Fields{"popMaintenanceMode", enabled, "message", message}
}
