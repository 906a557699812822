package workload

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

const (
	// LeaseTime is that of the queues.
	LeaseTime = 2 * time.Second
	// RetryLimit is how often a batch may fail before its messages are
	// dead-lettered.
	RetryLimit = 1
	// restFor is how long what failed rests in the first of the common queues.
	restFor = 200 * time.Millisecond
	// mostWait is the longest a consumer asks a pop to wait.
	mostWait = 3 * time.Second
	// longWait is that of one who waits for a single partition.
	longWait  = 6 * time.Second
	mostBatch = 60
	// overdue is how long past its lease a hanging consumer acknowledges.
	overdue = 300 * time.Millisecond
	// buried is in how many of a hundred deliveries the revived group dead-letters a
	// message that it may digest when it comes again.
	buried = 30
	// idlePause follows an empty pop that did not wait, or one that failed.
	idlePause = 100 * time.Millisecond
)

// habit is what a consumer does with a delivery.
type habit struct {
	weight int
	name   string
	do     func(ctx context.Context, c *client, d delivery)
}

// habits are what a consumer picks from for each delivery. Poison is always
// failed by those that report anything.
var habits = []habit{
	{50, "completes all", func(ctx context.Context, c *client, d delivery) { c.finish(ctx, d, d.digest("completed")) }},
	{8, "slow", func(ctx context.Context, c *client, d delivery) {
		pause(ctx, c.upTo(50*time.Millisecond, LeaseTime/2))
		c.finish(ctx, d, d.digest("completed"))
	}},
	{6, "one ack a message", func(ctx context.Context, c *client, d delivery) {
		for _, v := range d.digest("completed") {
			c.ack(ctx, d, d.LeaseID, []verdict{v})
		}
	}},
	{5, "completes some", func(ctx context.Context, c *client, d delivery) {
		c.finish(ctx, d, d.digest("completed")[:c.choose.IntN(len(d.Messages))])
	}},
	{8, "fails one", func(ctx context.Context, c *client, d delivery) {
		verdicts := d.digest("completed")
		verdicts[c.choose.IntN(len(verdicts))].status = "failed"
		c.finish(ctx, d, verdicts)
	}},
	{8, "hands on", func(ctx context.Context, c *client, d delivery) { c.handOn(ctx, d) }},
	{6, "completes in a transaction", func(ctx context.Context, c *client, d delivery) { c.completeTogether(ctx, d) }},
	{2, "fails all", func(ctx context.Context, c *client, d delivery) { c.finish(ctx, d, d.digest("failed")) }},
	{4, "retries", func(ctx context.Context, c *client, d delivery) { c.finish(ctx, d, d.digest("retry")) }},
	{3, "vanishes", func(context.Context, *client, delivery) {}},
	{3, "hangs", func(ctx context.Context, c *client, d delivery) {
		pause(ctx, LeaseTime+overdue)
		c.ack(ctx, d, d.LeaseID, d.digest("completed"))
	}},
	{5, "acks twice", func(ctx context.Context, c *client, d delivery) {
		for range 2 {
			c.ack(ctx, d, d.LeaseID, d.digest("completed"))
		}
	}},
	{4, "acks with another lease", func(ctx context.Context, c *client, d delivery) {
		if c.stale != "" {
			c.ack(ctx, d, c.stale, d.digest("completed"))
		}
		c.finish(ctx, d, d.digest("completed"))
	}},
	{6, "extends", func(ctx context.Context, c *client, d delivery) {
		c.extend(ctx, d, LeaseTime+time.Second)
		pause(ctx, c.upTo(LeaseTime/2, LeaseTime+overdue))
		c.finish(ctx, d, d.digest("completed"))
	}},
}

// digest gives every message this verdict, and poison a failure.
func (d delivery) digest(status string) []verdict {
	verdicts := make([]verdict, len(d.Messages))
	for i, m := range d.Messages {
		verdicts[i] = verdict{m, status}
		if m.Data.Poison {
			verdicts[i].status = "failed"
		}
	}
	return verdicts
}

// final completes every message, and dead-letters poison without another try.
func (d delivery) final() []verdict {
	verdicts := d.digest("completed")
	for i, v := range verdicts {
		if v.status == "failed" {
			verdicts[i].status = "dlq"
		}
	}
	return verdicts
}

// finish acknowledges, and once more when the outcome is unknown.
func (c *client) finish(ctx context.Context, d delivery, verdicts []verdict) {
	if len(verdicts) == 0 {
		return
	}
	if c.ack(ctx, d, d.LeaseID, verdicts).Outcome == history.Unknown && c.chance(50) {
		c.ack(ctx, d, d.LeaseID, verdicts)
	}
}

// consume pops for one group until stop ends; what is in flight then is finished
// under ctx.
func (c *client) consume(ctx, stop context.Context, group string) {
	c.consumeSlowly(ctx, stop, group, 0)
}

// consumeSlowly is consume with pauses between two deliveries.
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
		d := c.popSomehow(ctx, group)
		switch {
		case len(d.Messages) == 0 && d.wait == 0:
			pause(stop, idlePause)
			continue
		case len(d.Messages) == 0 || d.autoAck:
			continue
		}
		c.digestSomehow(ctx, d, total)
		c.stale, c.before = d.LeaseID, d
	}
}

// digestSomehow does with a delivery what one of the habits says, whose weights add up
// to total.
func (c *client) digestSomehow(ctx context.Context, d delivery, total int) {
	if d.group == revivedGroup && c.chance(buried) {
		c.bury(ctx, d)
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

// bury dead-letters one message at once, and completes the others.
func (c *client) bury(ctx context.Context, d delivery) {
	verdicts := d.digest("completed")
	verdicts[c.choose.IntN(len(verdicts))].status = "dlq"
	c.finish(ctx, d, verdicts)
}

// popSomehow pops in one of many ways. A wait of 0 in what it returns means that
// the caller should pause when nothing came.
func (c *client) popSomehow(ctx context.Context, group string) delivery {
	r := popRequest{queue: c.source(), group: group, batch: 1 + c.choose.IntN(mostBatch), partitions: 1}
	switch {
	case c.only != "":
		r.partition = c.only
	case c.chance(20):
		if r.partition = c.partition(); c.reads != nil {
			r.partition = partitionName(c.choose.IntN(c.lanes))
		}
	case c.chance(30):
		r.partitions = 1 + c.choose.IntN(c.crew.cfg.Partitions)
	}
	if c.chance(80) {
		r.wait = c.upTo(100*time.Millisecond, mostWait).Round(time.Millisecond)
	}
	if c.only != "" {
		r.wait = c.upTo(mostWait, longWait).Round(time.Millisecond)
	}
	r.autoAck = group == AutoAckGroup && c.chance(50)
	if c.chance(8) { // leaves while it waits, or in the middle of the answer
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
