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
	defaults   options
	partitions map[string]*partition
	// subs are the stored subscriptions of the consumer groups.
	subs map[string]subscription
	// step numbers the verbs. Cursors that became ready in an earlier step are popped first.
	step int
	// memory is what the instance that serves the step remembers of deliveries.
	memory memory
}

// partition is the model of a partition.
type partition struct {
	name string
	// id is the id in the API, known from the first push.
	id  queue.ID
	log []message
	// trimmed is the seq up to which the log was empty at the last sweep.
	trimmed int64
	cursors map[string]*cursor
}

// message is a stored message. Its seq counts from 1.
type message struct {
	seq           int64
	id            queue.ID
	transactionID string
	payload       string
	// storedAt is the step that stored it.
	storedAt int
	// gone: it was deleted.
	gone bool
	// old: it was stored long before the messages that are not old.
	old bool
}

// cursor is the cursor of a consumer group in a partition.
type cursor struct {
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
	delayed bool
	// aloneUntil is the last seq of the messages that are delivered one by one.
	aloneUntil int64
	// expired counts expired messages.
	expired int64

	// due is the step at which the cursor became ready. 0: it is not ready.
	due int

	deadLetters map[int64]deadLetter
	// redrives are the redriven dead letters that are not settled.
	redrives map[int64]redrive
}

// deadLetter is a dead letter.
type deadLetter struct {
	failures int32
	reason   string
}

func newWorld(retryLimit int64) *world {
	defaults := options{retryLimit: retryLimit}
	return &world{options: defaults, defaults: defaults, subs: map[string]subscription{}}
}

func (w *world) clone() *world {
	c := *w
	c.subs = maps.Clone(w.subs)
	c.partitions = maps.Clone(w.partitions)
	for name, p := range c.partitions {
		one := *p
		one.log = slices.Clone(p.log)
		one.cursors = map[string]*cursor{}
		for group, c := range p.cursors {
			other := *c
			other.skip, other.deadLetters, other.redrives = slices.Clone(c.skip), maps.Clone(c.deadLetters), maps.Clone(c.redrives)
			one.cursors[group] = &other
		}
		c.partitions[name] = &one
	}
	return &c
}

// partitionNames returns the names of the partitions, in order.
func (w *world) partitionNames() []string { return slices.Sorted(maps.Keys(w.partitions)) }

// partitionOf returns the partition with an id, or nil.
func (w *world) partitionOf(id queue.ID) *partition {
	for _, p := range w.partitions {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (p *partition) last() int64 { return int64(len(p.log)) }

// before returns the last seq whose message, and all before it, were stored before a step began.
func (p *partition) before(step int) int64 {
	for _, m := range p.log {
		if m.storedAt >= step && !m.gone && !m.old {
			return m.seq - 1
		}
	}
	return p.last()
}

// find returns the message with a transaction id, or nil.
func (p *partition) find(transactionID string) *message {
	for i := range p.log {
		if p.log[i].transactionID == transactionID && !p.log[i].gone {
			return &p.log[i]
		}
	}
	return nil
}

// remaining returns the messages that a group has not received.
func (p *partition) remaining(c *cursor) []message {
	var rest []message
	for _, m := range p.log[c.committed:] {
		if !m.gone && !slices.Contains(c.skip, m.seq) {
			rest = append(rest, m)
		}
	}
	return rest
}

// recomputeReady clears the lease and computes again whether the cursor is ready.
func (w *world) recomputeReady(p *partition, c *cursor) {
	c.lease, c.live, c.leaseEnd, c.due = queue.ID{}, false, 0, 0
	w.wake(p, c)
}

// wake makes a cursor ready that has messages left and no lease.
func (w *world) wake(p *partition, c *cursor) {
	if !c.live && c.due == 0 && (c.committed < p.last() && !c.delayed || c.redelivers()) {
		c.due = w.step
	}
}

// join creates the cursor of a group in a partition, unless the group has one. It starts after the messages stored before a
// step.
func (w *world) join(p *partition, group string, start int) {
	if p.cursors[group] != nil {
		return
	}
	c := &cursor{committed: p.trimmed, deadLetters: map[int64]deadLetter{}, redrives: map[int64]redrive{}}
	if start > 0 {
		c.committed = p.before(start)
	}
	p.cursors[group] = c
	w.wake(p, c)
}

// open returns a partition and creates it if necessary.
func (w *world) open(name string) *partition {
	if w.partitions == nil {
		w.partitions = map[string]*partition{}
	}
	if w.partitions[name] == nil {
		w.partitions[name] = &partition{name: name, cursors: map[string]*cursor{}}
		for group, sub := range w.subs {
			if sub.whole {
				w.join(w.partitions[name], group, sub.start)
			}
		}
	}
	return w.partitions[name]
}

// remove deletes the queue with its groups.
func (w *world) remove() {
	w.partitions, w.subs, w.options = nil, map[string]subscription{}, w.defaults
}
