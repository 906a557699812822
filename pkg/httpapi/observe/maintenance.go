package observe

import (
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Maintenance serves GET /api/v1/system/maintenance. It reads the switches and the figures of the other
// instances' spools from the database. If the database does not answer, it answers with the last known
// switches and only the spool of this instance.
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
	return api.Maintenance{
		MaintenanceMode: h.Switches.PushPaused() != nil, PopMaintenanceMode: h.Switches.PopPaused() != nil,
		BufferedMessages: int64(all.Messages), BufferHealthy: h.Spool.Healthy() == nil,
		BufferStats: api.BufferStats{PendingCount: int64(all.Messages), FailedCount: int64(all.Rejected), DBHealthy: loaded == nil && listed == nil},
		Buffers:     wire.Each(spools, heldRow),
	}, nil
}

func heldRow(of *spool.Held) api.Buffer {
	return api.Buffer{
		ID: wire.IDOrNull(of.ID), Host: of.Host, Messages: int64(of.Messages), Rejected: int64(of.Rejected), Bytes: of.Bytes, ChangedAt: of.ChangedAt,
	}
}

// maxRejections is the largest limit of Rejected.
const maxRejections = 1000

// Rejected serves GET /api/v1/system/maintenance/rejected. Queen MQ does not have this route.
func (h *Handlers) Rejected(p *wire.Params) (any, error) {
	limit := wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), 100), maxRejections)
	found, err := h.Spool.Rejections(p.Ctx(), limit)
	return api.SpoolRejections{Messages: wire.Each(found, spoolRow), Total: int64(h.Spool.Stats().Rejected)}, err
}

func spoolRow(r *spool.Rejection) api.SpoolRejection {
	return api.SpoolRejection{
		Queue: r.Queue, Partition: r.Partition, TransactionID: r.TransactionID, ProducerSub: wire.OrNull(r.ProducerSub), Data: r.Payload,
		Reason: r.Reason, RejectedAt: r.At,
	}
}

// PopMaintenance serves GET /api/v1/system/maintenance/pop.
func (h *Handlers) PopMaintenance(p *wire.Params) (any, error) {
	err := h.Switches.Load(p.Ctx())
	return PopMaintenanceFields(h.Switches.PopPaused() != nil), err
}

// PopMaintenanceFields returns the answer of the two routes that read and set pop maintenance.
func PopMaintenanceFields(enabled bool) wire.Fields {
	message := "Pop maintenance is off"
	if enabled {
		message = "Pop maintenance is on: until it ends, pops return no messages"
	}
	return wire.Fields{"popMaintenanceMode", enabled, "message", message}
}
