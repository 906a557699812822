package workload

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

const (
	// LeaseTime is the lease time of the queues.
	LeaseTime = 2 * time.Second
	// RetryLimit is the number of failures before messages are dead-lettered.
	RetryLimit = 1
	// retryDelay is the delay of failed messages in the first of the common queues.
	retryDelay = 200 * time.Millisecond
	// mostWait is the longest wait of a pop.
	mostWait = 3 * time.Second
	// longWait is the longest wait of a pop for a single partition.
	longWait  = 6 * time.Second
	mostBatch = 60
	// overdue is how long after the end of its lease a hanging consumer acknowledges.
	overdue = 300 * time.Millisecond
	// deadLetterPercent is the share of deliveries in which the revived group dead-letters a message that is not
	// poison.
	deadLetterPercent = 30
	// idlePause follows a failed pop, or an empty pop that did not wait.
	idlePause = 100 * time.Millisecond
)

// habit is what a consumer does with a delivery.
type habit struct {
	weight int
	name   string
	do     func(ctx context.Context, c *client, d delivery)
}

// habits are the choices of a consumer for each delivery. Habits that report anything fail poison.
var habits = []habit{
	{50, "completes all", func(ctx context.Context, c *client, d delivery) { c.finish(ctx, d, d.verdicts("completed")) }},
	{8, "slow", func(ctx context.Context, c *client, d delivery) {
		pause(ctx, c.upTo(50*time.Millisecond, LeaseTime/2))
		c.finish(ctx, d, d.verdicts("completed"))
	}},
	{6, "one ack a message", func(ctx context.Context, c *client, d delivery) {
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

// verdicts returns this status for every message, and a failure for poison.
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

// finalVerdicts completes every message and dead-letters poison at once.
func (d delivery) finalVerdicts() []verdict {
	verdicts := d.verdicts("completed")
	for i, v := range verdicts {
		if v.status == "failed" {
			verdicts[i].status = "dlq"
		}
	}
	return verdicts
}

// untilPoison returns completed verdicts for the messages before the first poison, and the verdicts for the rest.
func (d delivery) untilPoison() (before, rest []verdict) {
	verdicts := d.verdicts("completed")
	n := 0
	for n < len(verdicts) && verdicts[n].status == "completed" {
		n++
	}
	return verdicts[:n], verdicts[n:]
}

// finish acknowledges, and sometimes repeats an ack of unknown outcome.
func (c *client) finish(ctx context.Context, d delivery, verdicts []verdict) {
	if len(verdicts) == 0 {
		return
	}
	if c.ack(ctx, d, d.LeaseID, verdicts).Outcome == history.Unknown && c.chance(50) {
		c.ack(ctx, d, d.LeaseID, verdicts)
	}
}

// consume pops for one group until stop ends. Then it finishes the current delivery under ctx.
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

// deadLetterOne dead-letters one message and completes the others.
func (c *client) deadLetterOne(ctx context.Context, d delivery) {
	verdicts := d.verdicts("completed")
	verdicts[c.choose.IntN(len(verdicts))].status = "dlq"
	c.finish(ctx, d, verdicts)
}

// popRandomly pops with random options. If the wait of the result is 0, the caller pauses after an empty delivery.
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
	if c.chance(8) { // the client disconnects during the wait or the answer
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
