package queen

import "github.com/belfry-mq/belfry/pkg/httpapi/wire"

// Buffers serves GET /api/v1/status/buffers.
func (h *Handlers) Buffers(p *wire.Params) (any, error) {
	held := h.Observe.Spool.Stats()
	return wire.Fields{
		"pending", held.Messages, "failed", held.Rejected, "bytes", held.Bytes, "dbHealthy", h.Observe.Switches.Load(p.Ctx()) == nil,
		"bufferHealthy", h.Observe.Spool.Healthy() == nil, "worker", 0,
	}, p.Ctx().Err()
}
