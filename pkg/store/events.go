package store

import (
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// OnReady lowers the scan floors of the groups. Cursors that SQL consumers left are queued for
// settling. A SQL consumer whose transaction may have been long announces a cursor without the
// instant since when it is ready: then the floor of the group is dropped.
func (s *Store) OnReady(ready []queue.Ready, from events.Origin) {
	s.floors.Ready(ready...)
	if from != events.SQL {
		return
	}
	for _, r := range ready {
		if r.At.IsZero() {
			s.floors.Forget(r.Group)
		}
	}
	s.waker.SettleLater(ready)
}

// OnResync drops all scan floors.
func (s *Store) OnResync(string, events.Origin) { s.floors.ForgetAll() }

// OnLeaseChanged forgets the delivery of a lease.
func (s *Store) OnLeaseChanged(lease queue.ID) { s.delivered.Forget(lease) }
