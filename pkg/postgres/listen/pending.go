package listen

import (
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxPending is the most ready entries that wait to be sent. More entries become one
	// resync: it loses nothing, and the other instances look at everything.
	maxPending = 100_000
	// maxPayloads is the most payloads of one statement. A larger set becomes one resync.
	maxPayloads = 64
)

// groupPartition is the subject of a ready entry.
type groupPartition struct{ group, partition int64 }

// pendingNotifications is the set of entries to send. The zero value is empty. It is not
// safe for concurrent use.
type pendingNotifications struct {
	ready           map[groupPartition]time.Time // the earliest instant; zero is now
	partitions      map[int64]ReadyPartition     // ready for several groups, by partition
	created, resync bool
	canary          uint64 // the latest
	goodbye         bool
}

func (n *pendingNotifications) empty() bool {
	return len(n.ready)+len(n.partitions) == 0 && !n.created && !n.resync && n.canary == 0 && !n.goodbye
}

// add adds a partition of one group. One that cannot be encoded becomes a resync, so that the hint is not lost.
func (n *pendingNotifications) add(r queue.Ready) {
	switch {
	case n.resync:
	case !encodable(r):
		n.resyncOnly()
	default:
		n.addReady(groupPartition{r.Group, r.Partition}, r.At)
	}
}

// addPartition adds a partition that is ready for several groups.
func (n *pendingNotifications) addPartition(p ReadyPartition) {
	switch known, ok := n.partitions[p.Partition]; {
	case n.resync:
	case !p.encodable(), ok && known.Queue != p.Queue: // the database was replaced
		n.resyncOnly()
	case !ok || p.At.Before(known.At):
		if n.partitions == nil {
			n.partitions = make(map[int64]ReadyPartition)
		}
		n.partitions[p.Partition] = p
		n.limit()
	}
}

// addCreated adds a hint that something was created.
func (n *pendingNotifications) addCreated() { n.created = !n.resync }

func (n *pendingNotifications) addReady(p groupPartition, at time.Time) {
	if n.ready == nil {
		n.ready = make(map[groupPartition]time.Time)
	}
	// The zero time means now and is before every other time.
	if known, ok := n.ready[p]; ok && !at.Before(known) {
		return
	}
	n.ready[p] = at
	n.limit()
}

// limit replaces too many entries by one resync.
func (n *pendingNotifications) limit() {
	if len(n.ready)+len(n.partitions) > maxPending {
		n.resyncOnly()
	}
}

// resyncOnly replaces all entries by one resync.
func (n *pendingNotifications) resyncOnly() {
	n.resync, n.created, n.ready, n.partitions = true, false, nil, nil
}

// merge adds the contents of another set.
func (n *pendingNotifications) merge(other *pendingNotifications) {
	n.canary = max(n.canary, other.canary)
	n.goodbye = n.goodbye || other.goodbye
	switch {
	case n.resync:
	case other.resync:
		n.resyncOnly()
	default:
		n.created = n.created || other.created
		for p, at := range other.ready {
			if n.resync {
				return
			}
			n.addReady(p, at)
		}
		for _, p := range other.partitions {
			n.addPartition(p)
		}
	}
}

// payloads returns the payloads of one statement that sends the set, and the number of their hints.
func (n *pendingNotifications) payloads(instance queue.ID) (payloads []string, hints int) {
	message := Notification{Instance: instance, Canary: n.canary, Goodbye: n.goodbye, CatalogChanged: n.created, Resync: n.resync}
	for p, at := range n.ready {
		message.Ready = append(message.Ready, queue.Ready{Group: p.group, Partition: p.partition, At: at})
	}
	message.Partitions = slices.Collect(maps.Values(n.partitions))
	if payloads = Encode(message); len(payloads) > maxPayloads {
		message.CatalogChanged, message.Resync, message.Ready, message.Partitions = false, true, nil, nil
		payloads = Encode(message)
	}
	return payloads, message.hints()
}
