package model_test

import (
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// world is the model of one queue. If partitions is nil, the queue does not exist.
type world struct {
	options
	// defaults are the options of a queue created by a push.
	born  options
	lanes map[string]*lane
	// subs are the stored subscriptions of the consumer groups.
	subs map[string]subscription
	// step numbers the verbs. Cursors that became ready in an earlier step are popped first.
	step int
	// memory is what the instance that serves the step remembers of deliveries.
	memory memory
}

// partition is the model of a partition.
type lane struct {
	name string
	// id is the id in the API, known from the first push.
	id  queue.ID
	log []message
	// trimmed is the seq up to which the log was empty at the last sweep.
	trimmed int64
	places  map[string]*place
}

// message is a stored message. Its seq counts from 1.
type message struct {
	seq           int64
	id            queue.ID
	transactionID string
	payload       string
	// storedAt is the step that stored it.
	born int
	// gone: it was deleted.
	gone bool
	// old: it was stored long before the messages that are not old.
	old bool
}

// cursor is the cursor of a consumer group in a partition.
type place struct {
	committed int64
	// skip are the dead messages after committed, in order.
	skip               []int64
	failures, attempts int32
	consumed           int64

	// lease is kept after its end, until another value replaces or clears it.
	lease queue.ID
	live  bool
	// leaseEnd is the last seq that the lease holds. A negative value is the number of unsettled messages of a
	// redelivery.
	leaseEnd int64
	until    time.Time

	// delayed: the log has a retry delay.
	rests bool
	// aloneUntil is the last seq of the messages that are delivered one by one.
	aloneUntil int64
	// expired counts expired messages.
	expired int64

	// due is the step at which the cursor became ready. 0: it is not ready.
	due int

	letters map[int64]letter
	// redrives are the redriven dead letters that are not settled.
	redrives map[int64]redrive
}

// deadLetter is a dead letter.
type letter struct {
	failures int32
	reason   string
}

func newWorld(retryLimit int64) *world {
	born := options{retryLimit: retryLimit}
	return &world{options: born, born: born, subs: map[string]subscription{}}
}

func (w *world) clone() *world {
	c := *w
	c.subs = maps.Clone(w.subs)
	c.lanes = maps.Clone(w.lanes)
	for name, l := range c.lanes {
		one := *l
		one.log = slices.Clone(l.log)
		one.places = map[string]*place{}
		for group, p := range l.places {
			other := *p
			other.skip, other.letters, other.redrives = slices.Clone(p.skip), maps.Clone(p.letters), maps.Clone(p.redrives)
			one.places[group] = &other
		}
		c.lanes[name] = &one
	}
	return &c
}

// partitionNames returns the names of the partitions, in order.
func (w *world) laneNames() []string { return slices.Sorted(maps.Keys(w.lanes)) }

// partitionOf returns the partition with an id, or nil.
func (w *world) laneOf(id queue.ID) *lane {
	for _, l := range w.lanes {
		if l.id == id {
			return l
		}
	}
	return nil
}

func (l *lane) last() int64 { return int64(len(l.log)) }

// before returns the last seq whose message, and all before it, were stored before a step began.
func (l *lane) before(step int) int64 {
	for _, m := range l.log {
		if m.born >= step && !m.gone && !m.old {
			return m.seq - 1
		}
	}
	return l.last()
}

// find returns the message with a transaction id, or nil.
func (l *lane) find(transactionID string) *message {
	for i := range l.log {
		if l.log[i].transactionID == transactionID && !l.log[i].gone {
			return &l.log[i]
		}
	}
	return nil
}

// remaining returns the messages that a group has not received.
func (l *lane) undone(p *place) []message {
	var rest []message
	for _, m := range l.log[p.committed:] {
		if !m.gone && !slices.Contains(p.skip, m.seq) {
			rest = append(rest, m)
		}
	}
	return rest
}

// rearm clears the lease and computes again whether the cursor is ready.
func (w *world) rearm(l *lane, p *place) {
	p.lease, p.live, p.leaseEnd, p.due = queue.ID{}, false, 0, 0
	w.wake(l, p)
}

// wake makes a cursor ready that has messages left and no lease.
func (w *world) wake(l *lane, p *place) {
	if !p.live && p.due == 0 && (p.committed < l.last() && !p.rests || p.redelivers()) {
		p.due = w.step
	}
}

// join creates the cursor of a group in a partition if there is none. It starts after the messages stored before a
// step.
func (w *world) join(l *lane, group string, start int) {
	if l.places[group] != nil {
		return
	}
	p := &place{committed: l.trimmed, letters: map[int64]letter{}, redrives: map[int64]redrive{}}
	if start > 0 {
		p.committed = l.before(start)
	}
	l.places[group] = p
	w.wake(l, p)
}

// open returns a partition and creates it if necessary.
func (w *world) open(name string) *lane {
	if w.lanes == nil {
		w.lanes = map[string]*lane{}
	}
	if w.lanes[name] == nil {
		w.lanes[name] = &lane{name: name, places: map[string]*place{}}
		for group, sub := range w.subs {
			if sub.whole {
				w.join(w.lanes[name], group, sub.start)
			}
		}
	}
	return w.lanes[name]
}

// remove deletes the queue with its groups.
func (w *world) remove() { w.lanes, w.subs, w.options = nil, map[string]subscription{}, w.born }
