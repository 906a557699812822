package adminplane

import "github.com/belfry-mq/belfry/pkg/httpapi/wire"

// SharedState serves GET /api/v1/system/shared-state, and two more paths of Queen MQ. The instances share
// their state by notifications of Postgres. There is no cache of options that counts its hits.
func (h *Handlers) SharedState(*wire.Params) (any, error) {
	l := h.Listener()
	return wire.Fields{
		"enabled", true, "running", l.State == "proven", "server_id", l.Instance,
		"queue_config_cache", wire.Fields{"size", 0, "hits", 0, "misses", 0, "hit_rate", 0},
		"server_health", wire.Fields{"alive", l.Peers + 1, "dead", 0},
		"maintenance_mode", h.Switches.PushPaused() != nil, "pop_maintenance_mode", h.Switches.PopPaused() != nil,
		"transport", wire.Fields{"kind", "postgres", "state", l.State, "secondsSinceProof", l.Proof, "reconnects", l.Reconnects, "peers", l.Peers},
	}, nil
}
