package spool

import (
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// index lists in memory the records of the file. It is safe for concurrent use.
type index struct {
	// changed and unreported hold a signal after each change.
	changed, unreported events.Signal

	mu sync.Mutex
	// id is the id of the file, or zero without a file.
	id       queue.ID
	queues   map[string]*backlog
	turns    []*backlog // the first backlog is tried next
	rejects  int
	messages int
	bytes    int64
	// rejectedBytes is part of bytes.
	rejectedBytes int64
	// appending is the number of bytes that pushes are adding to the file.
	appending int64
}

// backlog lists the waiting records of one queue.
type backlog struct {
	queue string
	refs  []ref // in the order of their keys
	// After a failed attempt, until is the time of the next attempt. attempts is the number of failed
	// attempts in a row.
	until    time.Time
	attempts int
}

func newIndex() *index {
	return &index{changed: events.NewSignal(), unreported: events.NewSignal(), queues: map[string]*backlog{}}
}

func (x *index) signal() {
	x.changed.Set()
	x.unreported.Set()
}

// reset replaces the index.
func (x *index) reset(found content) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.id = found.id
	x.queues, x.turns, x.messages, x.bytes = map[string]*backlog{}, nil, 0, 0
	x.addLocked(found.waiting)
	x.rejects, x.rejectedBytes = 0, 0
	x.rejectLocked(found.rejected)
	x.signal()
}

// add appends records that were added to the file.
func (x *index) add(refs []ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.addLocked(refs)
	x.signal()
}

// reserve counts the bytes that a push is adding to the file, until release is called. It returns false if the spool
// would exceed the limit most.
func (x *index) reserve(bytes, most int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bytes+x.appending+bytes > most {
		return false
	}
	x.appending += bytes
	return true
}

func (x *index) release(bytes int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.appending -= bytes
}

func (x *index) addLocked(refs []ref) {
	for _, r := range refs {
		b := x.queues[r.queue]
		if b == nil {
			b = &backlog{queue: r.queue}
			x.queues[r.queue], x.turns = b, append(x.turns, b)
		}
		b.refs = append(b.refs, r)
		x.messages += r.messages
		x.bytes += r.bytes
	}
}

func (x *index) rejectLocked(refs []ref) {
	x.rejects += len(refs)
	for _, r := range refs {
		x.bytes += r.bytes
		x.rejectedBytes += r.bytes
	}
}

// settle removes the records in p.done, and counts the rejected records.
func (x *index) settle(p progress, rejected []ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.queues[p.queue]
	for _, r := range b.refs[:len(p.done)] {
		x.messages -= r.messages
		x.bytes -= r.bytes
	}
	b.refs, b.attempts = b.refs[len(p.done):], 0
	if p.rest != nil {
		x.messages += p.part.messages - b.refs[0].messages
		x.bytes += p.part.bytes - b.refs[0].bytes
		b.refs[0] = p.part
	}
	if len(b.refs) == 0 {
		delete(x.queues, b.queue)
		x.turns = slices.DeleteFunc(x.turns, func(other *backlog) bool { return other == b })
	}
	x.rejectLocked(rejected)
	x.signal()
}

// retried removes the rejected records and appends waiting records. It returns the number of
// removed records.
func (x *index) retried(waiting []ref) (forgotten int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	forgotten = x.rejects
	x.bytes -= x.rejectedBytes
	x.rejects, x.rejectedBytes = 0, 0
	x.addLocked(waiting)
	x.signal()
	return forgotten
}

func (x *index) empty() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.messages == 0 && x.rejects == 0
}

// holds reports whether one of the queues has a backlog.
func (x *index) holds(queues func(yield func(string) bool)) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.queues) == 0 {
		return false
	}
	for name := range queues {
		if x.queues[name] != nil {
			return true
		}
	}
	return false
}

// next returns the first records of the next queue, at most maxMessages and maxBytes but at least one
// record. Queues take turns. If all queues pause after a failure, refs is nil and wait is the time until
// the first pause ends. Without a backlog, wait is -1.
func (x *index) next(now time.Time, maxMessages int, maxBytes int64) (refs []ref, wait time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	wait = -1
	for i, b := range x.turns {
		if left := b.until.Sub(now); left > 0 {
			if wait < 0 || left < wait {
				wait = left
			}
			continue
		}
		x.turns = append(slices.Delete(x.turns, i, i+1), b)
		messages, bytes := 0, int64(0)
		for n, r := range b.refs {
			messages, bytes = messages+r.messages, bytes+r.bytes
			if n > 0 && (messages > maxMessages || bytes > maxBytes) {
				return b.refs[:n:n], 0
			}
		}
		return b.refs[:len(b.refs):len(b.refs)], 0
	}
	return nil, wait
}

// postpone delays the next attempt for a queue by a pause that grows with the attempts.
func (x *index) postpone(queueName string, now time.Time, pause func(attempts int) time.Duration) (attempts int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.queues[queueName]
	if b == nil {
		return 0
	}
	b.attempts++
	b.until = now.Add(pause(b.attempts))
	return b.attempts
}

// attempts returns the number of failed attempts in a row for a queue.
func (x *index) attempts(queueName string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b := x.queues[queueName]; b != nil {
		return b.attempts
	}
	return 0
}
