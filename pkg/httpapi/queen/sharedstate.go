package queen

import (
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// SharedState serves GET /api/v1/system/shared-state and two other paths of Queen MQ. Instances of Belfry
// use notifications of Postgres and not UDP, so the members about UDP are 0.
func (h *Handlers) SharedState(*wire.Params) (any, error) {
	l := h.Observe.Listener()
	peers, identities := make([]wire.Fields, len(l.Others)), wire.Fields{}
	for i, id := range l.Others {
		peers[i] = wire.Fields{"hostname", "", "config_server_id", id, "learned_server_id", id, "port", 0, "resolved", true}
		identities = append(identities, id.String(), i)
	}
	return append(InstanceState(&l, h.Observe.Switches), "transport", wire.Fields{
		"kind", "postgres", "state", l.State, "secondsSinceProof", l.SecondsSinceProof, "reconnects", l.Reconnects,
		"server_id", l.Instance, "session_id", l.Instance, "port", 0, "peer_count", len(peers), "peers", peers,
		"learned_identities_count", len(peers), "learned_identities", identities,
		"messages_sent", 0, "messages_received", 0, "messages_dropped", 0, "signature_failures", 0, "sequence_rejections", 0,
	}), nil
}

// InstanceState returns the public figures of the instances. Belfry has no cache of options that counts its hits, so
// these counts are 0. It forgets silent instances, so servers_dead is 0. switches is nil while the server starts.
func InstanceState(l *observe.ListenerState, switches observe.Switches) wire.Fields {
	push, pop := false, false
	if switches != nil {
		push, pop = switches.PushPaused() != nil, switches.PopPaused() != nil
	}
	return wire.Fields{
		"enabled", true, "running", l.State == "proven", "server_id", l.Instance,
		"queue_config_cache", wire.Fields{"size", 0, "hits", 0, "misses", 0, "hit_rate", 0},
		"server_health", wire.Fields{
			"servers_tracked", l.Peers, "servers_alive", l.Peers, "servers_dead", 0, "heartbeats_received", 0, "restarts_detected", 0,
		},
		"maintenance_mode", push, "pop_maintenance_mode", pop,
	}
}
