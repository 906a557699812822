package listen

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ready returns a partition that becomes poppable at the given instant.
func Ready(group, partition int64, at time.Time) queue.Ready {
	return queue.Ready{Group: group, Partition: partition, At: at}
}

// Send queues partitions that this instance made ready.
func (s *Sender) Send(ready ...queue.Ready) { s.OnReady(ready, events.Here) }

// SendCreated queues that this instance created something.
func (s *Sender) SendCreated() { s.OnCreated("orders", "", events.Here) }

// SendResync queues a resync.
func (s *Sender) SendResync() { s.OnResync("why", events.Here) }

// Counts are the values of SenderStats.
type Counts struct{ Flushes, Failures, EntriesIn, EntriesOut int64 }

// Counts returns the values of the counters.
func (s *Sender) Counts() Counts {
	c := &s.Stats
	return Counts{c.Flushes.Load(), c.Failures.Load(), c.EntriesIn.Load(), c.EntriesOut.Load()}
}

// These constants limit the rates of OnCreated and OnLook.
const (
	CreatedInterval, CreatedBurst = createdInterval, createdBurst
	LookInterval, LookBurst       = lookInterval, lookBurst
)

// Hints returns how many hints m has.
func (m *Notification) Hints() int { return m.hints() }

// QuietFor makes a proven listener behave as if it had heard no other instance for d.
func (l *Listener) QuietFor(d time.Duration) {
	l.peers.mu.Lock()
	defer l.peers.mu.Unlock()
	l.peers.quietSince = time.Now().Add(-d)
}
