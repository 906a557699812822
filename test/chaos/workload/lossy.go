package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// The lossy queues lose messages on purpose. They are separate, so that the rules stay strict for the common queues.
// Each lossy queue has separate consumers, and one producer that never repeats a push.
const (
	deletedQueue  = "chaos.deleted"  // messages are deleted by name
	retainedQueue = "chaos.retained" // messages of age keptFor are deleted, read or unread
	doneQueue     = "chaos.done"     // messages of age keptFor are deleted if every group completed them
	expiredQueue  = "chaos.expired"  // unread messages of age keptFor become dead letters
	goneQueue     = "chaos.gone"     // the queue is deleted repeatedly; a push creates it again
	waitedQueue   = "chaos.waited"   // messages of age keptFor are deleted if some group has not read them
	unreadQueue   = "chaos.unread"   // like waitedQueue, but without consumers
)

// lossyPartitions is the number of partitions of each lossy queue, idlePartitions the number of partitions of
// idleQueue.
const (
	lossyPartitions = 2
	idlePartitions  = 6
)

// lossyQueue is a queue that loses messages.
type lossyQueue struct {
	queue   string
	options map[string]any
	// longestPause is the maximum pause of its consumers.
	longestPause time.Duration
	// unread means that the queue has no consumers.
	unread bool
}

// keptFor is the time for which messages are kept, in seconds. It is longer than a request may take, so that no
// server repeats a push after its message was deleted.
const keptFor = 3

var lossyQueues = []lossyQueue{
	{queue: deletedQueue, longestPause: 300 * time.Millisecond},
	{queue: retainedQueue, options: map[string]any{"retentionEnabled": true, "retentionSeconds": keptFor}, longestPause: 2 * time.Second},
	{queue: doneQueue, options: map[string]any{"retentionEnabled": true, "completedRetentionSeconds": keptFor}, longestPause: time.Second},
	{queue: expiredQueue, options: map[string]any{"expireAfterSeconds": keptFor, "deadLetterExpired": true}, longestPause: 2 * time.Second},
	{queue: goneQueue},
	{queue: waitedQueue, options: map[string]any{"maxWaitTimeSeconds": keptFor}, longestPause: 2 * time.Second},
	{queue: unreadQueue, options: map[string]any{"maxWaitTimeSeconds": keptFor}, unread: true},
}

// lossyGroups read the lossy queues.
var lossyGroups = []string{"billing", "audit"}

// isLossy reports whether the queue loses messages.
func isLossy(name string) bool {
	return slices.ContainsFunc(lossyQueues, func(a lossyQueue) bool { return a.queue == name })
}

// groups returns the groups that read the queue.
func (a lossyQueue) groups() []string {
	if a.unread {
		return nil
	}
	return lossyGroups
}

// These groups read the common queues, and their cursors are moved. soughtGroup is sought to random targets.
// brokenGroup is deleted, and its next pop creates it again. revivedGroup is sought, and its dead letters are
// redriven.
const (
	soughtGroup  = "sought"
	brokenGroup  = "broken"
	revivedGroup = "revived"
)

var movedGroups = []string{soughtGroup, brokenGroup, revivedGroup}

// MovedGroups returns the groups that are sought or deleted.
func MovedGroups() []string { return slices.Clone(movedGroups) }

// movedConsumers is the number of consumers of each moved group.
const movedConsumers = 2

// These constants limit the random pauses of a producer of a lossy queue.
const (
	shortestFeed = 50 * time.Millisecond
	longestFeed  = 300 * time.Millisecond
	mostFed      = 6 // maximum items per push
)

// group returns the name of the group in a pop.
func (r Read) group() string {
	if r.Group == queue.DefaultGroup {
		return ""
	}
	return r.Group
}

// source returns a random queue to pop from.
func (c *client) source() string {
	if c.reads == nil {
		return c.queue()
	}
	return c.reads[c.choose.IntN(len(c.reads))]
}

// workLossy starts the clients of the lossy queues and of the moved groups.
func (c *Clients) workLossy(ctx, stop context.Context, all *sync.WaitGroup) {
	for _, group := range movedGroups {
		for n := range movedConsumers {
			one := c.client(fmt.Sprintf("%s-%d", group, n+1))
			all.Go(func() { one.consume(ctx, stop, group) })
		}
	}
	for _, a := range lossyQueues {
		producer := c.client(a.queue)
		all.Go(func() { producer.feed(ctx, stop, a.queue) })
		for _, group := range a.groups() {
			one := c.client(fmt.Sprintf("%s of %s", group, a.queue))
			one.reads, one.partitions = []string{a.queue}, lossyPartitions
			all.Go(func() { one.consumeSlowly(ctx, stop, group, a.longestPause) })
		}
	}
	seeker, reviver, remover, closer := c.client("seeker"), c.client("reviver"), c.client("remover"), c.client("closer")
	all.Go(func() { seeker.seekAround(ctx, stop, soughtGroup) })
	all.Go(func() { reviver.seekAround(ctx, stop, revivedGroup) })
	all.Go(func() { remover.removeGroups(ctx, stop) })
	all.Go(func() { closer.removeQueue(ctx, stop) })
	c.workIdle(ctx, stop, all)
}

// feed pushes to one queue, every message once. In deletedQueue it also deletes some of the messages.
func (c *client) feed(ctx, stop context.Context, where string) {
	defer c.http.CloseIdleConnections()
	var known []known
	for n := 0; pause(stop, c.upTo(shortestFeed, longestFeed)); n++ {
		items := make([]pushItem, 1+c.choose.IntN(mostFed))
		for i := range items {
			mark := fmt.Sprintf("%s.%d.%d", c.name, n, i)
			items[i] = pushItem{
				Queue: where, Partition: partitionName(c.choose.IntN(lossyPartitions)), TransactionID: mark, Payload: payload{mark, c.chance(poisoned)},
			}
		}
		_, result := c.pushTo(ctx, items)
		if where != deletedQueue {
			continue
		}
		known = remember(known, items, result)
		for range c.choose.IntN(3) {
			if len(known) > 0 {
				c.deleteMessage(ctx, where, known[c.choose.IntN(len(known))])
			}
		}
	}
}

// known is a message that a deletion can name.
type known struct{ partition, partitionID, transactionID string }

// mostKnown is the number of recent messages from which deletions choose. Some of these messages are not delivered
// yet, some are leased, and most are completed.
const mostKnown = 60

func remember(before []known, items []pushItem, result []pushed) []known {
	for i := range min(len(items), len(result)) {
		before = append(before, known{items[i].Partition, result[i].PartitionID, items[i].TransactionID})
	}
	return before[max(0, len(before)-mostKnown):]
}
