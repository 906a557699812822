// Package sent has the messages that streams have sent and that no consumer has acknowledged.
package sent

import (
	"sync"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Messages has the unacknowledged messages of all streams. Its methods Acknowledged and Transacted get all
// acknowledgments at this instance. It is safe for concurrent use. Its zero value is empty.
//
// A group has at most one live lease on a partition. So a delivery of a partition removes the messages of the
// previous delivery, even from another stream.
type Messages struct {
	mu         sync.Mutex
	partitions map[flightKey]*flight
}

// flightKey is a partition and a group.
type flightKey struct {
	group     string
	partition queue.ID
}

// flight has the messages of one partition for one group, in order.
type flight struct {
	stream   *Stream
	position catalog.LeasePosition
	messages []flightMessage
}

type flightMessage struct {
	transaction string
	seq         int64
}

// Stream has the unacknowledged messages of one stream.
type Stream struct {
	all *Messages
	// all.mu guards unsettled and keys. keys and freed are nil before the first message.
	unsettled int
	keys      map[flightKey]struct{}
	// freed is set when unsettled becomes smaller.
	freed events.Signal
}

// Stream returns a stream without messages.
func (f *Messages) Stream() *Stream {
	return &Stream{all: f}
}

// Add adds the messages of a delivery.
func (s *Stream) Add(d *queue.Delivery) {
	f := s.all
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.partitions == nil {
		f.partitions = map[flightKey]*flight{}
	}
	for i := range d.Messages {
		m := &d.Messages[i]
		key := flightKey{d.Group, m.Partition.ID}
		inFlight := f.partitions[key]
		if inFlight == nil || inFlight.stream != s || inFlight.position.Lease != d.LeaseID {
			f.dropLocked(key, len(messagesOf(inFlight)))
			inFlight = &flight{stream: s, position: catalog.LeasePosition{Lease: d.LeaseID, Partition: m.Partition.Key}}
			f.partitions[key] = inFlight
			if s.keys == nil {
				s.keys, s.freed = map[flightKey]struct{}{}, events.NewSignal()
			}
			s.keys[key] = struct{}{}
		}
		inFlight.messages = append(inFlight.messages, flightMessage{m.TransactionID, m.Seq})
		s.unsettled++
	}
}

func messagesOf(inFlight *flight) []flightMessage {
	if inFlight == nil {
		return nil
	}
	return inFlight.messages
}

// dropLocked removes the first n messages of a partition.
func (f *Messages) dropLocked(key flightKey, n int) {
	inFlight := f.partitions[key]
	if inFlight == nil {
		return
	}
	s := inFlight.stream
	s.unsettled -= n
	if inFlight.messages = inFlight.messages[n:]; len(inFlight.messages) == 0 {
		delete(f.partitions, key)
		delete(s.keys, key)
	}
	if n > 0 {
		s.freed.Set()
	}
}

// Freed returns a channel that gets a value after the number of unacknowledged messages became smaller. It is nil
// before the first message.
func (s *Stream) Freed() <-chan struct{} { return s.freed }

// Count returns the number of unacknowledged messages of the stream.
func (s *Stream) Count() int {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.unsettled
}

// Leases returns the leases of the unacknowledged messages of the stream.
func (s *Stream) Leases() (ids []queue.ID) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	seen := map[queue.ID]bool{}
	for key := range s.keys {
		if id := s.all.partitions[key].position.Lease; !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Update removes the messages that the group has finished or whose lease has ended. positions has the last finished message of
// each live lease of the stream.
func (s *Stream) Update(positions map[catalog.LeasePosition]int64) {
	f := s.all
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range s.keys {
		inFlight := f.partitions[key]
		done, live := positions[inFlight.position]
		n := 0
		for n < len(inFlight.messages) && (!live || inFlight.messages[n].seq <= done) {
			n++
		}
		f.dropLocked(key, n)
	}
}

// End removes all messages of the stream, and returns their leases.
func (s *Stream) End() []queue.ID {
	ids := s.Leases()
	s.Update(nil)
	return ids
}

// settled removes the messages that an acknowledgment settled.
func (f *Messages) settled(item *queue.AckItem, r *queue.AckResult) {
	id, err := queue.ParseID(item.PartitionID)
	if err != nil || !r.Success {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := flightKey{item.Group, id}
	inFlight := f.partitions[key]
	if inFlight == nil {
		return
	}
	if r.LeaseReleased {
		f.dropLocked(key, len(inFlight.messages))
		return
	}
	for i := range inFlight.messages {
		switch {
		case inFlight.messages[i].transaction != item.TransactionID:
		case item.Status == queue.AckCompleted: // this message and all earlier messages
			f.dropLocked(key, i+1)
			return
		default: // only this message: it moves to the front, and is removed there
			m := inFlight.messages[i]
			copy(inFlight.messages[1:i+1], inFlight.messages[:i])
			inFlight.messages[0] = m
			f.dropLocked(key, 1)
			return
		}
	}
}

// Acknowledged removes the messages that these acknowledgments settled.
func (f *Messages) Acknowledged(items []queue.AckItem, results []queue.AckResult) {
	for i := range results {
		f.settled(&items[i], &results[i])
	}
}

// Transacted removes the messages that an applied transaction acknowledged.
func (f *Messages) Transacted(tx *queue.Transaction, result *queue.TransactionResult) {
	for i := range result.Operations {
		if done := result.Operations[i].Ack; done != nil {
			f.settled(tx.Operations[i].Ack, done)
		}
	}
}
