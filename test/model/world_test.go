package model_test

import (
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// world is the model of one queue. A nil lanes means that it does not exist.
type world struct {
	options
	// born are the options of a queue that is born by a push.
	born  options
	lanes map[string]*lane
	// subs are the stored subscriptions of the consumer groups.
	subs map[string]subscription
	// step numbers the verbs: what becomes due in an earlier one is popped first.
	step int
	// memory is what the instance that serves the step remembers of deliveries.
	memory memory
}

// lane is a partition.
type lane struct {
	name string
	// id is on the wire; the first push tells it.
	id  queue.ID
	log []message
	// trimmed: up to there the log was empty at the last sweep.
	trimmed int64
	places  map[string]*place
}

// message is a stored message; its seq is its place in the log, from 1.
type message struct {
	seq           int64
	id            queue.ID
	transactionID string
	payload       string
	// born is the step that stored it.
	born int
	// gone: it was deleted by itself.
	gone bool
	// old: it was stored long before everything that is not.
	old bool
}

// place is a consumer group's cursor in a partition.
type place struct {
	committed int64
	// skip are dead messages beyond committed, in order.
	skip               []int64
	failures, attempts int32
	consumed           int64

	// lease is kept when it has expired, until something replaces or clears it.
	lease queue.ID
	live  bool
	// leaseEnd is the last place it holds; below 0, it is that of a redelivery with
	// so many messages that are not settled.
	leaseEnd int64
	until    time.Time

	// rests: nothing of the log comes before time has passed.
	rests bool
	// aloneUntil is where messages end that are delivered one by one.
	aloneUntil int64
	// expired counts messages.
	expired int64

	// due is the step at which there was something to pop; 0: there is nothing.
	due int

	letters map[int64]letter
	// redrives are the dead letters that were put back and not settled yet.
	redrives map[int64]redrive
}

// letter is a dead letter.
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

// laneNames are the partitions there are, in order.
func (w *world) laneNames() []string { return slices.Sorted(maps.Keys(w.lanes)) }

// laneOf finds a partition by its id on the wire.
func (w *world) laneOf(id queue.ID) *lane {
	for _, l := range w.lanes {
		if l.id == id {
			return l
		}
	}
	return nil
}

func (l *lane) last() int64 { return int64(len(l.log)) }

// before is the last place in the log whose message, and all before it, were
// stored before a step began.
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

// undone are the messages a group has yet to get.
func (l *lane) undone(p *place) []message {
	var rest []message
	for _, m := range l.log[p.committed:] {
		if !m.gone && !slices.Contains(p.skip, m.seq) {
			rest = append(rest, m)
		}
	}
	return rest
}

// rearm says anew whether there is something to pop, once no lease is live.
func (w *world) rearm(l *lane, p *place) {
	p.lease, p.live, p.leaseEnd, p.due = queue.ID{}, false, 0, 0
	w.wake(l, p)
}

// wake makes a cursor due that has something left and no lease.
func (w *world) wake(l *lane, p *place) {
	if !p.live && p.due == 0 && (p.committed < l.last() && !p.rests || p.redelivers()) {
		p.due = w.step
	}
}

// join gives a group a cursor in a partition, if it has none, behind what was
// stored before a step.
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

// open returns a partition, made if need be.
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

// remove takes the queue away, with its groups.
func (w *world) remove() { w.lanes, w.subs, w.options = nil, map[string]subscription{}, w.born }
