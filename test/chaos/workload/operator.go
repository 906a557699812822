package workload

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// These constants limit the random pauses of an operator between two seeks, and between two deletions of a queue or
// group.
const (
	shortestSeek   = 100 * time.Millisecond
	longestSeek    = 900 * time.Millisecond
	shortestDelete = time.Second
	longestDelete  = 4 * time.Second
	// farthest is the maximum distance of a seek to a time, before now.
	farthest = 5 * time.Second
)

// deleteMessage deletes one message and records the operation.
func (c *client) deleteMessage(ctx context.Context, where string, m known) {
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.DeleteMessage, Queue: where,
		Items: []history.Item{{Partition: m.partition, TransactionID: m.transactionID}},
	})
	got := c.send(ctx, http.MethodDelete, "/api/v1/messages/"+m.partitionID+"/"+m.transactionID, "", 0)
	var result struct {
		Success bool `json:"success"`
	}
	if c.readAnswer(&o, got, &result); o.Outcome == history.Done {
		o.Items[0].Accepted = result.Success
	}
	c.recorder.End(o)
}

// seekAround moves a group in one queue or partition at a time. For the revived group it also redrives dead letters
// there, usually after the seek, sometimes without a seek.
func (c *client) seekAround(ctx, stop context.Context, group string) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestSeek, longestSeek)) {
		partition := ""
		if c.chance(50) {
			partition = c.partition()
		}
		where, revived := c.queue(), group == revivedGroup
		if !revived || c.chance(80) {
			c.seek(ctx, group, where, partition, c.seekTarget())
		}
		if revived && c.chance(80) {
			c.redrive(ctx, where, group, partition)
		}
	}
}

// seekTarget returns a random target of a seek.
func (c *client) seekTarget() string {
	switch n := c.choose.IntN(100); {
	case n < 20:
		return history.ToEnd
	case n < 40:
		return history.ToBeginning
	}
	return time.Now().Add(-c.upTo(0, farthest)).UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}

// seek moves a group and records the operation.
func (c *client) seek(ctx context.Context, group, where, partition, to string) {
	target := "/api/v1/consumer-groups/" + group + "/queues/" + where
	if partition != "" {
		target += "/partitions/" + partition
	}
	body := map[string]any{"timestamp": to}
	switch to {
	case history.ToEnd:
		body = map[string]any{"toEnd": true}
	case history.ToBeginning:
		body = map[string]any{"toBeginning": true}
	}
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.Seek, Queue: where, Partition: partition, Group: group, Target: to,
	})
	got := c.send(ctx, http.MethodPost, target+"/seek", encode(body), 0)
	var result struct {
		Success bool `json:"success"`
	}
	if c.readAnswer(&o, got, &result); o.Outcome == history.Refused && got.Status < http.StatusInternalServerError && partition == "" {
		c.clients.complain("%s: a seek was refused: %s", c.name, o.Error)
	}
	c.recorder.End(o)
}

// removeGroups deletes the broken group, from one queue or from all.
func (c *client) removeGroups(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestDelete, longestDelete)) {
		queues, target := []string{c.queue()}, ""
		if c.chance(25) {
			queues = c.clients.common()
		} else {
			target = "/queues/" + queues[0]
		}
		operations := make([]history.Operation, len(queues))
		for i, name := range queues {
			operations[i] = c.recorder.Begin(history.Operation{Client: c.name, Kind: history.DeleteGroup, Queue: name, Group: brokenGroup})
		}
		got := c.send(ctx, http.MethodDelete, "/api/v1/consumer-groups/"+url.PathEscape(brokenGroup)+target, "", 0)
		for i := range operations {
			var result struct{}
			c.readAnswer(&operations[i], got, &result)
			c.recorder.End(operations[i])
		}
	}
}

// removeQueue deletes goneQueue.
func (c *client) removeQueue(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestDelete, longestDelete)) {
		o := c.recorder.Begin(history.Operation{Client: c.name, Kind: history.DeleteQueue, Queue: goneQueue})
		var result struct{}
		c.readAnswer(&o, c.send(ctx, http.MethodDelete, "/api/v1/resources/queues/"+goneQueue, "", 0), &result)
		c.recorder.End(o)
	}
}
