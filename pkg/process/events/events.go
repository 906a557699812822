// Package events carries what happens in one package to the packages that must react. A package publishes on the Bus after its
// commit. The Bus then calls every Handler, in the order in which the handlers subscribed.
//
// An event is a hint, and the tables are the truth. A handler that misses an event looks at the tables again when its fallback
// timer fires. Each event has an Origin, because an instance notifies the others only of its own events.
//
// A handler runs on the goroutine of the publisher. So it must not block and must not call the database.
package events

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Origin says where an event happened.
type Origin uint8

// The origins.
const (
	Here Origin = iota // this instance
	Peer               // another instance, or a resync because a notification may be missing
	SQL                // a consumer or producer in a SQL session, whose notification reaches every instance
)

// Handler reacts to events. Several goroutines may call its methods at once, and no method may block. Embed Nop to implement only
// some of the methods.
type Handler interface {
	// OnReady is called when partitions became poppable for groups, or will become poppable at a known time.
	OnReady(ready []queue.Ready, from Origin)
	// OnCreated is called when a partition was created, or when a queue was created, with an empty partition. Both names are empty
	// if a peer did not say what was created.
	OnCreated(queueName, partition string, from Origin)
	// OnPartitionsCreated is called after this instance has created n partitions of a queue.
	OnPartitionsCreated(queueName string, n int)
	// OnGroupCreated is called when this instance has created a consumer group, or made it consume one more partition. partition
	// is empty if the group consumes the whole queue.
	OnGroupCreated(queueName, partition, group string)
	// OnResync is called when something may have become poppable in an unknown partition. Every waiter probes again, and no
	// partition counts as empty any more.
	OnResync(reason string, from Origin)
	// OnLeaseChanged is called when a message under the lease was deleted. What an instance remembers of the delivery is then out
	// of date.
	OnLeaseChanged(lease queue.ID)
	// OnSQLWaiter is called when a SQL session waits in belfry.await.
	OnSQLWaiter(w queue.SQLWaiter)
	// OnListening is called each time LISTEN takes effect. Earlier notifications did not reach this instance.
	OnListening()
	// OnInbox is called when rows may have been committed to belfry.inbox.
	OnInbox()
	// OnRevocation is called when a token may have been revoked.
	OnRevocation()
	// OnSetting is called when belfry.setting may have changed.
	OnSetting()
	// OnSchedule is called when a caller may have changed belfry.schedule.
	OnSchedule()
}

// Nop ignores every event.
type Nop struct{}

// OnReady does nothing.
func (Nop) OnReady([]queue.Ready, Origin) {}

// OnCreated does nothing.
func (Nop) OnCreated(_, _ string, _ Origin) {}

// OnPartitionsCreated does nothing.
func (Nop) OnPartitionsCreated(string, int) {}

// OnGroupCreated does nothing.
func (Nop) OnGroupCreated(_, _, _ string) {}

// OnResync does nothing.
func (Nop) OnResync(string, Origin) {}

// OnLeaseChanged does nothing.
func (Nop) OnLeaseChanged(queue.ID) {}

// OnSQLWaiter does nothing.
func (Nop) OnSQLWaiter(queue.SQLWaiter) {}

// OnListening does nothing.
func (Nop) OnListening() {}

// OnInbox does nothing.
func (Nop) OnInbox() {}

// OnRevocation does nothing.
func (Nop) OnRevocation() {}

// OnSetting does nothing.
func (Nop) OnSetting() {}

// OnSchedule does nothing.
func (Nop) OnSchedule() {}

// Bus passes events to its handlers. The zero value is ready to use. All Subscribe calls must happen before the first event.
// Afterwards a Bus is safe for concurrent use.
type Bus struct {
	handlers []Handler
}

// Subscribe adds a handler. Handlers are called in the order of their subscription.
func (b *Bus) Subscribe(h Handler) { b.handlers = append(b.handlers, h) }

func (b *Bus) each(call func(Handler)) {
	for _, h := range b.handlers {
		call(h)
	}
}

// Ready publishes that partitions became poppable. Publishing an empty slice does nothing.
func (b *Bus) Ready(ready []queue.Ready, from Origin) {
	if len(ready) == 0 {
		return
	}
	b.each(func(h Handler) { h.OnReady(ready, from) })
}

// Created publishes that a partition was created, or that a queue was created, if partition is empty.
func (b *Bus) Created(queueName, partition string, from Origin) {
	b.each(func(h Handler) { h.OnCreated(queueName, partition, from) })
}

// PartitionsCreated publishes that this instance has created n partitions of a queue.
func (b *Bus) PartitionsCreated(queueName string, n int) {
	b.each(func(h Handler) { h.OnPartitionsCreated(queueName, n) })
}

// GroupCreated publishes that this instance has created a consumer group for a queue, or for one partition.
func (b *Bus) GroupCreated(queueName, partition, group string) {
	b.each(func(h Handler) { h.OnGroupCreated(queueName, partition, group) })
}

// Resync publishes that every waiter must probe again. reason is for the log.
func (b *Bus) Resync(reason string, from Origin) {
	b.each(func(h Handler) { h.OnResync(reason, from) })
}

// LeaseChanged publishes that a message under the lease was deleted.
func (b *Bus) LeaseChanged(lease queue.ID) {
	b.each(func(h Handler) { h.OnLeaseChanged(lease) })
}

// SQLWaiter publishes that a SQL session waits.
func (b *Bus) SQLWaiter(w queue.SQLWaiter) {
	b.each(func(h Handler) { h.OnSQLWaiter(w) })
}

// Listening publishes that LISTEN took effect.
func (b *Bus) Listening() {
	b.each(func(h Handler) { h.OnListening() })
}

// Inbox publishes that the inbox may hold new rows.
func (b *Bus) Inbox() {
	b.each(func(h Handler) { h.OnInbox() })
}

// Revocation publishes that a token may have been revoked.
func (b *Bus) Revocation() {
	b.each(func(h Handler) { h.OnRevocation() })
}

// Setting publishes that belfry.setting may have changed.
func (b *Bus) Setting() {
	b.each(func(h Handler) { h.OnSetting() })
}

// Schedule publishes that a caller may have changed belfry.schedule.
func (b *Bus) Schedule() {
	b.each(func(h Handler) { h.OnSchedule() })
}

const (
	// rereadInterval is the least time between two reads.
	rereadInterval = 100 * time.Millisecond
	// retryInterval is the time until a failed read is repeated.
	retryInterval = time.Second
)

// Signal wakes the goroutine that receives from it. Several calls of Set before the goroutine receives wake it once. It is safe
// for concurrent use.
type Signal chan struct{}

// NewSignal returns a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal. It does not block.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default: // the signal is set already
	}
}

// Reread calls read each time the signal is set, until ctx ends. Reread waits at least 100 ms between two reads, because every
// role of the database can send notifications. If a read fails, Reread calls failed, and reads again after a second. It returns
// nil.
func (s Signal) Reread(ctx context.Context, read func(context.Context) error, failed func(error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s:
		}
		pause := rereadInterval
		if err := read(ctx); err != nil && ctx.Err() == nil {
			failed(err)
			pause = retryInterval
			s.Set()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
