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
	// defaults are the options of a queue that a push creates.
	defaults   options
	partitions map[string]*partition
	// subs are the stored subscriptions of the consumer groups.
	subs map[string]subscription
	// step numbers the verbs. A pop takes first the cursors that became ready in the earliest step.
	step int
	// memory is what the instance that runs this step remembers about deliveries.
	memory memory
}

// partition is the model of a partition.
type partition struct {
	name string
	// id is the id in the API. It is zero before the first push.
	id  queue.ID
	log []message
	// trimmed is the seq up to which the last sweep found the log empty.
	trimmed int64
	cursors map[string]*cursor
}

// message is a stored message. Its seq counts from 1.
type message struct {
	seq           int64
	id            queue.ID
	transactionID string
	payload       string
	// storedAt is the step that stored the message.
	storedAt int
	// gone means that the message was deleted.
	gone bool
	// old means that the message is at least two hours older than messages that are not old.
	old bool
}

// cursor is the cursor of a consumer group in a partition.
type cursor struct {
	committed int64
	// skip are the seqs of dead letters and deleted messages after committed, in order.
	skip               []int64
	failures, attempts int32
	consumed           int64

	// lease keeps its value after the lease has ended, until it is replaced or cleared.
	lease queue.ID
	live  bool
	// leaseEnd is the last seq that the lease covers. If it is negative, the lease covers redriven messages, and -leaseEnd
	// of them are unsettled.
	leaseEnd int64
	until    time.Time

	// delayed means that a retry delay of the log has not ended. Redriven messages have delays of their own.
	delayed bool
	// aloneUntil is the seq up to which the messages are delivered one by one.
	aloneUntil int64
	// expired counts expired messages.
	expired int64

	// due is the step in which the cursor became ready. 0 means that it is not ready.
	due int

	deadLetters map[int64]deadLetter
	// redrives are the redriven dead letters that are not settled yet.
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

// before returns the highest seq up to which all messages were stored before the start of a step.
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

// remaining returns the messages after the cursor that are neither deleted nor skipped.
func (p *partition) remaining(c *cursor) []message {
	var rest []message
	for _, m := range p.log[c.committed:] {
		if !m.gone && !slices.Contains(c.skip, m.seq) {
			rest = append(rest, m)
		}
	}
	return rest
}

// recomputeReady clears the lease and then recomputes whether the cursor is ready.
func (w *world) recomputeReady(p *partition, c *cursor) {
	c.lease, c.live, c.leaseEnd, c.due = queue.ID{}, false, 0, 0
	w.wake(p, c)
}

// wake makes a cursor ready if it has messages to deliver and no lease.
func (w *world) wake(p *partition, c *cursor) {
	if !c.live && c.due == 0 && (c.committed < p.last() && !c.delayed || c.redelivers()) {
		c.due = w.step
	}
}

// join creates the cursor of a group in a partition, unless the cursor exists. The cursor starts after the messages that
// were stored before the step start.
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
