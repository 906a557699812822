package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// What the common queues promise must not be weakened by what takes messages away,
// so that happens in queues aside, each with one producer that never repeats a push,
// and with consumers of its own.
const (
	deletedQueue  = "chaos.deleted"  // messages are deleted by their names
	retainedQueue = "chaos.retained" // messages are deleted when they are too old, read or not
	doneQueue     = "chaos.done"     // messages are deleted when all have completed them for a while
	expiredQueue  = "chaos.expired"  // messages that wait too long are dead letters
	goneQueue     = "chaos.gone"     // is deleted now and then, and made anew by a push
	waitedQueue   = "chaos.waited"   // messages that wait too long for some group are deleted
	unreadQueue   = "chaos.unread"   // the same, and nobody reads it
)

// asidePartitions is how many partitions they have, idlePartitions those of the queue
// whose partitions are removed.
const (
	asidePartitions = 2
	idlePartitions  = 6
)

// aside is a queue that loses messages.
type aside struct {
	queue   string
	options map[string]any
	// rest is how long its consumers pause at most.
	rest time.Duration
	// unread: it has no consumers.
	unread bool
}

// keptFor is how long messages are kept, in seconds: longer than a request may
// take, so that no server repeats a push whose message is gone.
const keptFor = 3

var asides = []aside{
	{queue: deletedQueue, rest: 300 * time.Millisecond},
	{queue: retainedQueue, options: map[string]any{"retentionEnabled": true, "retentionSeconds": keptFor}, rest: 2 * time.Second},
	{queue: doneQueue, options: map[string]any{"retentionEnabled": true, "completedRetentionSeconds": keptFor}, rest: time.Second},
	{queue: expiredQueue, options: map[string]any{"expireAfterSeconds": keptFor, "deadLetterExpired": true}, rest: 2 * time.Second},
	{queue: goneQueue},
	{queue: waitedQueue, options: map[string]any{"maxWaitTimeSeconds": keptFor}, rest: 2 * time.Second},
	{queue: unreadQueue, options: map[string]any{"maxWaitTimeSeconds": keptFor}, unread: true},
}

// asideGroups read the queues aside.
var asideGroups = []string{"billing", "audit"}

// groups read it.
func (a aside) groups() []string {
	if a.unread {
		return nil
	}
	return asideGroups
}

// Groups that read the common queues and are moved: the one is sought to other
// places, another deleted, and joined anew by its next pop, and of the third the dead
// letters are put back as well, before and after it is sought.
const (
	soughtGroup  = "sought"
	brokenGroup  = "broken"
	revivedGroup = "revived"
)

var movedGroups = []string{soughtGroup, brokenGroup, revivedGroup}

// MovedGroups are the groups that are sought or deleted.
func MovedGroups() []string { return slices.Clone(movedGroups) }

// movedConsumers is how many consumers each of them has.
const movedConsumers = 2

// The pauses of an operator between two seeks, and between two deletions of a queue
// or a group.
const (
	shortestSeek   = 100 * time.Millisecond
	longestSeek    = 900 * time.Millisecond
	shortestDelete = time.Second
	longestDelete  = 4 * time.Second
	// farthest is how far back a seek to an instant goes.
	farthest = 5 * time.Second
)

// The pauses of a producer aside.
const (
	shortestAside = 50 * time.Millisecond
	longestAside  = 300 * time.Millisecond
	mostAside     = 6 // items of a push
)

// group is how a pop names it.
func (r Read) group() string {
	if r.Group == queue.NoGroup {
		return ""
	}
	return r.Group
}

// source is a queue to pop from.
func (c *client) source() string {
	if c.reads == nil {
		return c.queue()
	}
	return c.reads[c.choose.IntN(len(c.reads))]
}

// workAside runs the clients of the queues aside and of the groups that are moved.
func (c *Crew) workAside(ctx, stop context.Context, all *sync.WaitGroup) {
	for _, group := range movedGroups {
		for n := range movedConsumers {
			one := c.client(fmt.Sprintf("%s-%d", group, n+1))
			all.Go(func() { one.consume(ctx, stop, group) })
		}
	}
	for _, a := range asides {
		producer := c.client(a.queue)
		all.Go(func() { producer.feed(ctx, stop, a.queue) })
		for _, group := range a.groups() {
			one := c.client(fmt.Sprintf("%s of %s", group, a.queue))
			one.reads, one.lanes = []string{a.queue}, asidePartitions
			all.Go(func() { one.consumeSlowly(ctx, stop, group, a.rest) })
		}
	}
	seeker, reviver, remover, closer := c.client("seeker"), c.client("reviver"), c.client("remover"), c.client("closer")
	all.Go(func() { seeker.seekAround(ctx, stop, soughtGroup) })
	all.Go(func() { reviver.seekAround(ctx, stop, revivedGroup) })
	all.Go(func() { remover.removeGroups(ctx, stop) })
	all.Go(func() { closer.removeQueue(ctx, stop) })
	c.workIdle(ctx, stop, all)
}

// feed pushes to one queue, every message once, and if it is that of deletions takes
// some of them back.
func (c *client) feed(ctx, stop context.Context, where string) {
	defer c.http.CloseIdleConnections()
	var known []known
	for n := 0; pause(stop, c.upTo(shortestAside, longestAside)); n++ {
		items := make([]pushItem, 1+c.choose.IntN(mostAside))
		for i := range items {
			mark := fmt.Sprintf("%s.%d.%d", c.name, n, i)
			items[i] = pushItem{
				Queue: where, Partition: partitionName(c.choose.IntN(asidePartitions)), TransactionID: mark, Payload: payload{mark, c.chance(poisoned)},
			}
		}
		_, told := c.pushTo(ctx, items)
		if where != deletedQueue {
			continue
		}
		known = remember(known, items, told)
		for range c.choose.IntN(3) {
			if len(known) > 0 {
				c.deleteMessage(ctx, where, known[c.choose.IntN(len(known))])
			}
		}
	}
}

// known is a message that can be named.
type known struct{ partition, partitionID, transactionID string }

// mostKnown is how many messages back a deletion goes: some are not delivered yet,
// some are leased, most are done.
const mostKnown = 60

func remember(before []known, items []pushItem, told []pushed) []known {
	for i := range min(len(items), len(told)) {
		before = append(before, known{items[i].Partition, told[i].PartitionID, items[i].TransactionID})
	}
	return before[max(0, len(before)-mostKnown):]
}

// deleteMessage deletes one message and records it.
func (c *client) deleteMessage(ctx context.Context, where string, m known) {
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.DeleteMessage, Queue: where,
		Items: []history.Item{{Partition: m.partition, TransactionID: m.transactionID}},
	})
	got := c.send(ctx, http.MethodDelete, "/api/v1/messages/"+m.partitionID+"/"+m.transactionID, "", 0)
	var told struct {
		Success bool `json:"success"`
	}
	if c.judge(&o, got, &told); o.Outcome == history.Done {
		o.Items[0].Accepted = told.Success
	}
	c.recorder.End(o)
}

// seekAround moves a group in one queue or partition at a time. Of the revived one it
// puts dead letters back there, mostly after the seek, now and then instead of it.
func (c *client) seekAround(ctx, stop context.Context, group string) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestSeek, longestSeek)) {
		partition := ""
		if c.chance(50) {
			partition = c.partition()
		}
		where, revived := c.queue(), group == revivedGroup
		if !revived || c.chance(80) {
			c.seek(ctx, group, where, partition, c.place())
		}
		if revived && c.chance(80) {
			c.redrive(ctx, where, group, partition)
		}
	}
}

// place is where a seek may go.
func (c *client) place() string {
	switch n := c.choose.IntN(100); {
	case n < 20:
		return history.ToEnd
	case n < 40:
		return history.ToBeginning
	}
	return time.Now().Add(-c.upTo(0, farthest)).UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}

// seek moves a group and records it.
func (c *client) seek(ctx context.Context, group, where, partition, place string) {
	target := "/api/v1/consumer-groups/" + group + "/queues/" + where
	if partition != "" {
		target += "/partitions/" + partition
	}
	body := map[string]any{"timestamp": place}
	switch place {
	case history.ToEnd:
		body = map[string]any{"toEnd": true}
	case history.ToBeginning:
		body = map[string]any{"toBeginning": true}
	}
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.Seek, Queue: where, Partition: partition, Group: group, Place: place,
	})
	got := c.send(ctx, http.MethodPost, target+"/seek", encode(body), 0)
	var told struct {
		Success bool `json:"success"`
	}
	if c.judge(&o, got, &told); o.Outcome == history.Refused && got.status < http.StatusInternalServerError && partition == "" {
		c.crew.complain("%s: a seek was refused: %s", c.name, o.Error)
	}
	c.recorder.End(o)
}

// removeGroups deletes the broken group, from one queue or from all.
func (c *client) removeGroups(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestDelete, longestDelete)) {
		queues, target := []string{c.queue()}, ""
		if c.chance(25) {
			queues = c.crew.common()
		} else {
			target = "/queues/" + queues[0]
		}
		operations := make([]history.Operation, len(queues))
		for i, name := range queues {
			operations[i] = c.recorder.Begin(history.Operation{Client: c.name, Kind: history.DeleteGroup, Queue: name, Group: brokenGroup})
		}
		got := c.send(ctx, http.MethodDelete, "/api/v1/consumer-groups/"+url.PathEscape(brokenGroup)+target, "", 0)
		for i := range operations {
			var told struct{}
			c.judge(&operations[i], got, &told)
			c.recorder.End(operations[i])
		}
	}
}

// removeQueue deletes the queue that goes.
func (c *client) removeQueue(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestDelete, longestDelete)) {
		o := c.recorder.Begin(history.Operation{Client: c.name, Kind: history.DeleteQueue, Queue: goneQueue})
		var told struct{}
		c.judge(&o, c.send(ctx, http.MethodDelete, "/api/v1/resources/queues/"+goneQueue, "", 0), &told)
		c.recorder.End(o)
	}
}
