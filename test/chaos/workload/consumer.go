package workload

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

const (
	// LeaseTime is the lease time of the queues.
	LeaseTime = 2 * time.Second
	// RetryLimit is the number of failures before a message becomes a dead letter.
	RetryLimit = 1
	// retryDelay is the delay of failed messages in the first of the common queues.
	retryDelay = 200 * time.Millisecond
	// mostWait is the maximum wait of a pop.
	mostWait = 3 * time.Second
	// longWait is the maximum wait of a pop for a single partition.
	longWait  = 6 * time.Second
	mostBatch = 60
	// overdue is the time from the end of a lease to the late ack of a hanging consumer.
	overdue = 300 * time.Millisecond
	// deadLetterPercent is the percentage of deliveries in which the revived group makes a message a dead letter,
	// even if the message is not poison.
	deadLetterPercent = 30
	// idlePause is the pause after a failed pop, and after an empty pop that did not wait.
	idlePause = 100 * time.Millisecond
)

// habit is one way to handle a delivery.
type habit struct {
	weight int
	name   string
	do     func(ctx context.Context, c *client, d delivery)
}

// habits are the possible ways to handle a delivery. Each habit that sends acks fails poison messages.
var habits = []habit{
	{50, "completes all", func(ctx context.Context, c *client, d delivery) { c.finish(ctx, d, d.verdicts("completed")) }},
	{8, "slow", func(ctx context.Context, c *client, d delivery) {
		pause(ctx, c.upTo(50*time.Millisecond, LeaseTime/2))
		c.finish(ctx, d, d.verdicts("completed"))
	}},
	{6, "one ack per message", func(ctx context.Context, c *client, d delivery) {
		for _, v := range d.verdicts("completed") {
			c.ack(ctx, d, d.LeaseID, []verdict{v})
		}
	}},
	{5, "completes some", func(ctx context.Context, c *client, d delivery) {
		c.finish(ctx, d, d.verdicts("completed")[:c.choose.IntN(len(d.Messages))])
	}},
	{8, "fails one", func(ctx context.Context, c *client, d delivery) {
		verdicts := d.verdicts("completed")
		verdicts[c.choose.IntN(len(verdicts))].status = "failed"
		c.finish(ctx, d, verdicts)
	}},
	{8, "hands on", func(ctx context.Context, c *client, d delivery) { c.handOn(ctx, d) }},
	{6, "completes in a transaction", func(ctx context.Context, c *client, d delivery) { c.completeTogether(ctx, d) }},
	{2, "fails all", func(ctx context.Context, c *client, d delivery) { c.finish(ctx, d, d.verdicts("failed")) }},
	{4, "retries", func(ctx context.Context, c *client, d delivery) { c.finish(ctx, d, d.verdicts("retry")) }},
	{3, "disappears", func(context.Context, *client, delivery) {}},
	{3, "hangs", func(ctx context.Context, c *client, d delivery) {
		pause(ctx, LeaseTime+overdue)
		c.ack(ctx, d, d.LeaseID, d.verdicts("completed"))
	}},
	{5, "acks twice", func(ctx context.Context, c *client, d delivery) {
		for range 2 {
			c.ack(ctx, d, d.LeaseID, d.verdicts("completed"))
		}
	}},
	{4, "acks with another lease", func(ctx context.Context, c *client, d delivery) {
		if c.stale != "" {
			c.ack(ctx, d, c.stale, d.verdicts("completed"))
		}
		c.finish(ctx, d, d.verdicts("completed"))
	}},
	{6, "extends", func(ctx context.Context, c *client, d delivery) {
		c.extend(ctx, d, LeaseTime+time.Second)
		pause(ctx, c.upTo(LeaseTime/2, LeaseTime+overdue))
		c.finish(ctx, d, d.verdicts("completed"))
	}},
}

// verdicts returns the status for every message, and the status failed for poison messages.
func (d delivery) verdicts(status string) []verdict {
	verdicts := make([]verdict, len(d.Messages))
	for i, m := range d.Messages {
		verdicts[i] = verdict{m, status}
		if m.Data.Poison {
			verdicts[i].status = "failed"
		}
	}
	return verdicts
}

// finalVerdicts completes every message and makes poison messages dead letters at once.
func (d delivery) finalVerdicts() []verdict {
	verdicts := d.verdicts("completed")
	for i, v := range verdicts {
		if v.status == "failed" {
			verdicts[i].status = "dlq"
		}
	}
	return verdicts
}

// untilPoison returns verdicts that complete the messages before the first poison message, and the remaining
// verdicts.
func (d delivery) untilPoison() (before, rest []verdict) {
	verdicts := d.verdicts("completed")
	n := 0
	for n < len(verdicts) && verdicts[n].status == "completed" {
		n++
	}
	return verdicts[:n], verdicts[n:]
}

// finish sends acks. It sometimes repeats an ack of unknown outcome.
func (c *client) finish(ctx context.Context, d delivery, verdicts []verdict) {
	if len(verdicts) == 0 {
		return
	}
	if c.ack(ctx, d, d.LeaseID, verdicts).Outcome == history.Unknown && c.chance(50) {
		c.ack(ctx, d, d.LeaseID, verdicts)
	}
}

// consume pops for one group until stop ends. Then it finishes the current delivery with ctx.
func (c *client) consume(ctx, stop context.Context, group string) {
	c.consumeSlowly(ctx, stop, group, 0)
}

// consumeSlowly is consume with random pauses up to longest between two deliveries.
func (c *client) consumeSlowly(ctx, stop context.Context, group string, longest time.Duration) {
	defer c.http.CloseIdleConnections()
	total := 0
	for _, h := range habits {
		total += h.weight
	}
	for stop.Err() == nil {
		if longest > 0 {
			pause(stop, c.upTo(0, longest))
		}
		d := c.popRandomly(ctx, group)
		switch {
		case len(d.Messages) == 0 && d.wait == 0:
			pause(stop, idlePause)
			continue
		case len(d.Messages) == 0 || d.autoAck:
			continue
		}
		c.handle(ctx, d, total)
		c.stale, c.before = d.LeaseID, d
	}
}

// handle applies a random habit to a delivery. total is the sum of the weights of all habits.
func (c *client) handle(ctx context.Context, d delivery, total int) {
	if d.group == revivedGroup && c.chance(deadLetterPercent) {
		c.deadLetterOne(ctx, d)
		return
	}
	choice := c.choose.IntN(total)
	for _, h := range habits {
		if choice -= h.weight; choice < 0 {
			h.do(ctx, c, d)
			return
		}
	}
}

// deadLetterOne makes one message a dead letter and completes the other messages.
func (c *client) deadLetterOne(ctx context.Context, d delivery) {
	verdicts := d.verdicts("completed")
	verdicts[c.choose.IntN(len(verdicts))].status = "dlq"
	c.finish(ctx, d, verdicts)
}

// popRandomly pops with random options. If wait is 0 in an empty result, the caller must pause before the next pop.
func (c *client) popRandomly(ctx context.Context, group string) delivery {
	r := popRequest{queue: c.source(), group: group, batch: 1 + c.choose.IntN(mostBatch), partitions: 1}
	switch {
	case c.only != "":
		r.partition = c.only
	case c.chance(20):
		if r.partition = c.partition(); c.reads != nil {
			r.partition = partitionName(c.choose.IntN(c.partitions))
		}
	case c.chance(30):
		r.partitions = 1 + c.choose.IntN(c.clients.cfg.Partitions)
	}
	if c.chance(80) {
		r.wait = c.upTo(100*time.Millisecond, mostWait).Round(time.Millisecond)
	}
	if c.only != "" {
		r.wait = c.upTo(mostWait, longWait).Round(time.Millisecond)
	}
	r.autoAck = group == AutoAckGroup && c.chance(50)
	if c.chance(8) { // the client disconnects while it waits or receives the answer
		leaving, cancel := context.WithTimeout(ctx, c.upTo(0, 200*time.Millisecond))
		defer cancel()
		ctx = leaving
	}
	d, o := c.pop(ctx, r)
	if o.Outcome != history.Done {
		d.wait = 0
	}
	return d
}
