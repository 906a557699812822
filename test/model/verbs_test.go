package model_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// stored is the result of one pushed item.
type stored struct {
	partition *partition
	// seq is the seq of the stored message. For a duplicate it is the seq of the original.
	seq       int64
	duplicate bool
}

func (s stored) String() string {
	if s.duplicate {
		return fmt.Sprintf("duplicate of %s#%d", s.partition.name, s.seq)
	}
	return fmt.Sprintf("queued as %s#%d", s.partition.name, s.seq)
}

// push stores items in order. A partition stores a transaction id only once.
func (w *world) push(items []queue.PushItem) []stored {
	out := make([]stored, len(items))
	for i, item := range items {
		p := w.open(item.Partition)
		if item.TransactionID != "" {
			if m := p.find(item.TransactionID); m != nil {
				out[i] = stored{p, m.seq, true}
				continue
			}
		}
		m := message{seq: p.last() + 1, transactionID: item.TransactionID, payload: string(item.Payload), storedAt: w.step}
		p.log = append(p.log, m)
		out[i] = stored{p, m.seq, false}
	}
	for _, p := range w.partitions {
		for _, c := range p.cursors {
			w.wake(p, c)
		}
	}
	return out
}

// delivered is the result of a pop.
type delivered struct {
	claimed  int
	messages []string
	// later means that no partition is ready now, but a lease or a retry delay will end.
	later bool
}

func (d delivered) String() string {
	switch {
	case len(d.messages) > 0:
		return fmt.Sprintf("%d partitions: %s", d.claimed, strings.Join(d.messages, ", "))
	case d.later:
		return "nothing before a lease or a retry delay ends"
	default:
		return "nothing"
	}
}

// pop claims ready partitions. The partition that has been ready longest is first. If two became ready in the same step,
// the order is undefined, and the partition last comes last.
func (w *world) pop(req *queue.PopRequest, lease queue.ID, last string) delivered {
	onlyNew := req.Subscription.Mode == queue.SubscribeNew && req.Group != queue.DefaultGroup
	names := w.partitionNames()
	if req.Partition != nil {
		if w.partitions[*req.Partition] == nil {
			return delivered{}
		}
		names = []string{*req.Partition}
	}
	var start int
	if w.partitions != nil {
		start = w.subscribe(req.Group, req.Partition == nil, onlyNew)
	}
	for _, name := range names {
		w.join(w.partitions[name], req.Group, start)
	}
	for {
		d, moved := w.claim(names, req, lease, last)
		if len(d.messages) > 0 || !moved {
			return d
		}
	}
}

// claim is one attempt. moved means that a cursor moved past dead messages, so another attempt may succeed.
func (w *world) claim(names []string, req *queue.PopRequest, lease queue.ID, last string) (d delivered, moved bool) {
	var due []*partition
	for _, name := range names {
		c := w.partitions[name].cursors[req.Group]
		d.later = d.later || c.live || (c.delayed || c.firstDelayed()) && c.due == 0
		if c.due > 0 {
			due = append(due, w.partitions[name])
		}
	}
	slices.SortFunc(due, func(a, b *partition) int {
		tie := cmp.Compare(b2i(a.name == last), b2i(b.name == last))
		return cmp.Or(cmp.Compare(a.cursors[req.Group].due, b.cursors[req.Group].due), tie)
	})
	for _, p := range due[:min(len(due), req.Partitions)] {
		c := p.cursors[req.Group]
		room := req.Batch - len(d.messages)
		most := room
		if room > 0 && !c.redelivers() && c.committed < p.last() && !c.delayed && w.skipUndeliverable(p, c) && !req.AutoAck {
			most = 1
		}
		rest := p.remaining(c)
		switch {
		case room == 0:
		case c.redelivers():
			messages := w.redeliver(p, c, req.AutoAck, lease, room)
			d.claimed += b2i(len(messages) > 0)
			d.messages = append(d.messages, messages...)
			moved = moved || len(messages) == 0
		case c.committed >= p.last() || c.delayed:
			w.recomputeReady(p, c)
			moved = true
		case len(rest) == 0:
			c.committed, c.skip, c.attempts, c.failures = p.last(), nil, 0, 0
			w.recomputeReady(p, c)
			moved = true
		default:
			taken := c.neighbours(rest[:min(len(rest), most)])
			w.take(p, c, req.AutoAck, lease, taken)
			d.claimed++
			for _, m := range taken {
				d.messages = append(d.messages, fmt.Sprintf("%s#%d attempt %d", p.name, m.seq, c.attempts))
			}
		}
	}
	return d, moved
}

// neighbours returns the messages before the first gap. A gap is a skipped seq after the first message.
func (c *cursor) neighbours(rest []message) []message {
	for _, seq := range c.skip {
		if seq > rest[0].seq {
			return slices.DeleteFunc(slices.Clone(rest), func(m message) bool { return m.seq > seq })
		}
	}
	return rest
}

// take leases messages to a consumer. With autoAck it consumes them instead.
func (w *world) take(p *partition, c *cursor, autoAck bool, lease queue.ID, taken []message) {
	upto := taken[len(taken)-1].seq
	if !autoAck {
		c.lease, c.live, c.leaseEnd, c.due = lease, true, upto, 0
		c.attempts++
		return
	}
	c.committed, c.attempts, c.failures = upto, 0, 0
	c.consumed += int64(len(taken))
	c.skip = slices.DeleteFunc(c.skip, func(seq int64) bool { return seq <= upto })
	w.recomputeReady(p, c)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// holders returns the cursors that have this lease id. The lease may have ended.
func (w *world) holders(lease queue.ID) []*cursor {
	var held []*cursor
	for _, name := range w.partitionNames() {
		for _, c := range w.partitions[name].cursors {
			if c.lease == lease && !lease.IsZero() {
				held = append(held, c)
			}
		}
	}
	return held
}

// release ends a lease and undoes the attempt of its claim.
func (w *world) release(lease queue.ID) {
	for _, p := range w.partitions {
		for _, c := range p.cursors {
			if c.lease == lease {
				if c.leaseEnd < 0 {
					c.undoAttempt(lease)
				} else {
					c.attempts = max(c.attempts-1, 0)
				}
				w.recomputeReady(p, c)
			}
		}
	}
}
