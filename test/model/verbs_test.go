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
	lane *lane
	// seq is the seq of the stored message, or of the original of a duplicate.
	seq       int64
	duplicate bool
}

func (s stored) String() string {
	if s.duplicate {
		return fmt.Sprintf("duplicate of %s#%d", s.lane.name, s.seq)
	}
	return fmt.Sprintf("queued as %s#%d", s.lane.name, s.seq)
}

// push stores items in order. A transaction id is stored once in a partition.
func (w *world) push(items []queue.PushItem) []stored {
	out := make([]stored, len(items))
	for i, item := range items {
		l := w.open(item.Partition)
		if item.TransactionID != "" {
			if m := l.find(item.TransactionID); m != nil {
				out[i] = stored{l, m.seq, true}
				continue
			}
		}
		m := message{seq: l.last() + 1, transactionID: item.TransactionID, payload: string(item.Payload), born: w.step}
		l.log = append(l.log, m)
		out[i] = stored{l, m.seq, false}
	}
	for _, l := range w.lanes {
		for _, p := range l.places {
			w.wake(l, p)
		}
	}
	return out
}

// delivered is the result of a pop.
type delivered struct {
	claimed  int
	messages []string
	// later: nothing is ready, but a lease or a retry delay will end.
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

// pop claims ready partitions, the longest ready first. Among partitions that became ready in one step, last is taken
// last: their order is not defined.
func (w *world) pop(req *queue.PopRequest, lease queue.ID, last string) delivered {
	onlyNew := req.Subscription.Mode == queue.SubscribeNew && req.Group != queue.NoGroup
	lanes := w.laneNames()
	if req.Partition != nil {
		if w.lanes[*req.Partition] == nil {
			return delivered{}
		}
		lanes = []string{*req.Partition}
	}
	var start int
	if w.lanes != nil {
		start = w.subscribe(req.Group, req.Partition == nil, onlyNew)
	}
	for _, name := range lanes {
		w.join(w.lanes[name], req.Group, start)
	}
	for {
		d, moved := w.claim(lanes, req, lease, last)
		if len(d.messages) > 0 || !moved {
			return d
		}
	}
}

// claim is one attempt. moved: a cursor with only dead messages left has moved past them, so another attempt may
// succeed.
func (w *world) claim(lanes []string, req *queue.PopRequest, lease queue.ID, last string) (d delivered, moved bool) {
	var due []*lane
	for _, name := range lanes {
		p := w.lanes[name].places[req.Group]
		d.later = d.later || p.live || (p.rests || p.restsFirst()) && p.due == 0
		if p.due > 0 {
			due = append(due, w.lanes[name])
		}
	}
	slices.SortFunc(due, func(a, b *lane) int {
		tie := cmp.Compare(b2i(a.name == last), b2i(b.name == last))
		return cmp.Or(cmp.Compare(a.places[req.Group].due, b.places[req.Group].due), tie)
	})
	for _, l := range due[:min(len(due), req.Partitions)] {
		p := l.places[req.Group]
		room := req.Batch - len(d.messages)
		most := room
		if room > 0 && !p.redelivers() && p.committed < l.last() && !p.rests && w.setAside(l, p) && !req.AutoAck {
			most = 1
		}
		rest := l.undone(p)
		switch {
		case room == 0:
		case p.redelivers():
			messages := w.redeliver(l, p, req.AutoAck, lease, room)
			d.claimed += b2i(len(messages) > 0)
			d.messages = append(d.messages, messages...)
			moved = moved || len(messages) == 0
		case p.committed >= l.last() || p.rests:
			w.rearm(l, p)
			moved = true
		case len(rest) == 0:
			p.committed, p.skip, p.attempts, p.failures = l.last(), nil, 0, 0
			w.rearm(l, p)
			moved = true
		default:
			taken := rest[:min(len(rest), most)]
			w.take(l, p, req.AutoAck, lease, taken)
			d.claimed++
			for _, m := range taken {
				d.messages = append(d.messages, fmt.Sprintf("%s#%d attempt %d", l.name, m.seq, p.attempts))
			}
		}
	}
	return d, moved
}

// take leases messages, or consumes them.
func (w *world) take(l *lane, p *place, autoAck bool, lease queue.ID, taken []message) {
	upto := taken[len(taken)-1].seq
	if !autoAck {
		p.lease, p.live, p.leaseEnd, p.due = lease, true, upto, 0
		p.attempts++
		return
	}
	p.committed, p.attempts, p.failures = upto, 0, 0
	p.consumed += int64(len(taken))
	p.skip = slices.DeleteFunc(p.skip, func(seq int64) bool { return seq <= upto })
	w.rearm(l, p)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// holders returns the cursors with a lease id, live or not.
func (w *world) holders(lease queue.ID) []*place {
	var held []*place
	for _, name := range w.laneNames() {
		for _, p := range w.lanes[name].places {
			if p.lease == lease && !lease.IsZero() {
				held = append(held, p)
			}
		}
	}
	return held
}

// release undoes a claim.
func (w *world) release(lease queue.ID) {
	for _, l := range w.lanes {
		for _, p := range l.places {
			if p.lease == lease {
				if p.leaseEnd < 0 {
					p.unattempt(lease)
				} else {
					p.attempts = max(p.attempts-1, 0)
				}
				w.rearm(l, p)
			}
		}
	}
}
