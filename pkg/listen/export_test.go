package listen

import (
	"maps"
	"slices"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// PeerIDs returns the other live instances.
func (l *Listener) PeerIDs() []queue.ID { return l.peers.ids() }

func (p *peers) ids() []queue.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.due))
}
