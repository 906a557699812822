package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// timerSlots is the number of queues of each kind.
	timerSlots = 10
	// timerStagger is the time between the pushes to two queues.
	timerStagger = 20 * time.Millisecond
	// timerLength is the length of each delay, window and lease.
	timerLength = 2 * time.Second
	// timerAfter and timerBefore are times in which statements are not counted. timerAfter follows the last push.
	// timerBefore precedes the time at which the first message is due.
	timerAfter, timerBefore = 300 * time.Millisecond, 200 * time.Millisecond
	// timerPatience is the delay after which a message counts as stuck.
	timerPatience = 10 * time.Second
	timerTarget   = 20 * time.Millisecond
)

// timerKind is one reason for which a message becomes due without a request.
type timerKind struct {
	name, option string
	// messages is the number of messages that become due together. The second message keeps a window open.
	messages int
	leased   bool
}

var timerKinds = []timerKind{
	{name: "delay", option: "delayedProcessing", messages: 1},
	{name: "window", option: "windowBuffer", messages: 2},
	{name: "lease", option: "leaseTime", messages: 1, leased: true},
}

// timerSlot is one queue with one waiting consumer.
type timerSlot struct {
	timerKind
	server    *rig.Server
	queue     string
	delivered chan timedDelivery
}

// timerPop is the answer of a pop.
type timerPop struct {
	LeaseID  string `json:"leaseId"`
	Messages []struct {
		TransactionID string    `json:"transactionId"`
		PartitionID   string    `json:"partitionId"`
		CreatedAt     time.Time `json:"createdAt"`
	} `json:"messages"`

	load.Response `json:"-"`
}

// timedDelivery has the last delivery of a message. If the kind is a lease, it also has the first delivery.
type timedDelivery struct{ last, first timerPop }

// due returns when the message was due. The clock of the database is the clock of this machine. A lease begins a little
// before its delivery arrives. So a message of a lease was due between earliest and due.
func (t *timedDelivery) due(k timerKind) (due, earliest time.Time) {
	if k.leased {
		return t.first.At.Add(timerLength), t.first.Sent.Add(timerLength)
	}
	due = t.last.Messages[len(t.last.Messages)-1].CreatedAt.Add(timerLength)
	return due, due
}

// measureTimers measures messages that become due because time passes.
func measureTimers(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx, 1, []string{""}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	var slots []*timerSlot
	for _, kind := range timerKinds {
		queues := queueNames(kind.name, timerSlots)
		if err := createQueues(ctx, t.Client, queues, map[string]int{kind.option: int(timerLength.Seconds())}); err != nil {
			return err
		}
		for _, queue := range queues {
			slots = append(slots, &timerSlot{timerKind: kind, server: t.servers[0], queue: queue, delivered: make(chan timedDelivery, 1)})
		}
	}
	waiting := load.NewWorkers(ctx)
	for _, s := range slots {
		waiting.Go(s.consume)
	}
	var counts *timerCounts
	// The first round fills caches and is not counted.
	for round := 0; err == nil && round <= r.timerRounds && (counts == nil || counts.stuck == 0); round++ {
		if round <= 1 {
			counts = newTimerCounts()
		}
		err = t.timerRound(waiting.Context, slots, counts)
	}
	if err = errors.Join(err, waiting.Stop()); err != nil {
		return err
	}
	counts.report(out)
	return nil
}

// consume keeps one request waiting. In a queue with leases it lets the first lease expire, and acknowledges the second
// delivery.
func (s *timerSlot) consume(ctx context.Context) error {
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=10&wait=true&timeout=%d&autoAck=%t", s.queue, longWait.Milliseconds(), !s.leased)
	var first timerPop
	for {
		var d timerPop
		var err error
		if d.Response, err = s.server.Call(ctx, http.MethodGet, path, nil, &d); err != nil {
			return err
		}
		switch {
		case len(d.Messages) == 0:
			continue
		case s.leased && first.LeaseID == "":
			first = d
			continue
		case s.leased:
			if err := s.ack(ctx, d); err != nil {
				return err
			}
		}
		select {
		case s.delivered <- timedDelivery{d, first}:
			first = timerPop{}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errAckRefused = errors.New("the server refused an ack")

func (s *timerSlot) ack(ctx context.Context, d timerPop) error {
	var acks []map[string]string
	for _, m := range d.Messages {
		acks = append(acks, map[string]string{"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": d.LeaseID})
	}
	var results []struct {
		Success bool `json:"success"`
	}
	_, err := s.server.Call(ctx, http.MethodPost, "/api/v1/ack/batch", map[string]any{"acknowledgments": acks}, &results)
	for _, result := range results {
		if !result.Success {
			err = errAckRefused
		}
	}
	return err
}

// push waits for delay and then pushes the messages of the slot. They become due later.
func (s *timerSlot) push(ctx context.Context, delay time.Duration) error {
	for range s.messages {
		if err := load.Pause(ctx, delay); err != nil {
			return err
		}
		delay = timerStagger
		item := map[string]any{"queue": s.queue, "payload": 1}
		if _, err := s.server.Call(ctx, http.MethodPost, "/api/v1/push", map[string]any{"items": []any{item}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// timerRound pushes to all queues, counts the statements until the first message is due, and
// collects the deliveries.
func (t *trial) timerRound(ctx context.Context, slots []*timerSlot, counts *timerCounts) error {
	if err := t.waitArrived(ctx, t.servers[0], len(slots)); err != nil {
		return err
	}
	firstDue := time.Now().Add(timerLength)
	pushes := load.NewWorkers(ctx)
	for i, s := range slots {
		pushes.Go(func(ctx context.Context) error { return s.push(ctx, time.Duration(i%timerSlots)*timerStagger) })
	}
	if err := pushes.Wait(); err != nil {
		return err
	}
	if err := load.Pause(ctx, timerAfter); err != nil {
		return err
	}
	if err := rig.ResetStatements(ctx, t.admin, t.database); err != nil {
		return err
	}
	reset := time.Now()
	if err := load.Pause(ctx, time.Until(firstDue.Add(-timerBefore))); err != nil {
		return err
	}
	all, err := t.statements(ctx)
	if err != nil {
		return err
	}
	counts.addStatements(time.Since(reset), withoutCanaries(all))
	patience, cancel := context.WithTimeout(ctx, timerLength+timerPatience)
	defer cancel()
	for _, s := range slots {
		select {
		case d := <-s.delivered:
			counts.addDelivery(s.timerKind, &d)
		case <-patience.Done():
			counts.stuck++
		}
	}
	return ctx.Err()
}

// timerCounts collects the results of the rounds.
type timerCounts struct {
	late                  map[string]*load.Times
	early, partial, stuck int
	watched               time.Duration
	statements            []load.Statement
	// busyRounds is the number of rounds with at least one statement.
	busyRounds int
}

func newTimerCounts() *timerCounts {
	c := &timerCounts{late: map[string]*load.Times{}}
	for _, k := range timerKinds {
		c.late[k.name] = load.NewTimes()
	}
	return c
}

func (c *timerCounts) addDelivery(k timerKind, d *timedDelivery) {
	due, earliest := d.due(k)
	c.late[k.name].Add(d.last.At.Sub(due))
	if d.last.At.Before(earliest) {
		c.early++
	}
	if len(d.last.Messages) != k.messages {
		c.partial++
	}
}

// addStatements adds the statements that ran while no message was due.
func (c *timerCounts) addStatements(watched time.Duration, all []load.Statement) {
	c.watched += watched
	c.statements = append(c.statements, all...)
	if len(all) > 0 {
		c.busyRounds++
	}
}

func (c *timerCounts) report(out *rig.Report) {
	out.Never("stuck", c.stuck)
	out.Never("delivered before the message was due", c.early)
	out.Never("delivered in parts or more than once", c.partial)
	for _, k := range timerKinds {
		late := c.late[k.name]
		out.NoteTime(fmt.Sprintf("%s: lateness of %d, p50", k.name, late.Count()), late, 0.5)
		out.Quick(k.name+": lateness, p95", late.Quantile(0.95), timerTarget)
	}
	out.Count(fmt.Sprintf("statements in %.1f s between push and due time", c.watched.Seconds()), total(c.statements), 0)
	if len(c.statements) > 0 {
		out.Remark(fmt.Sprintf("the statements, in %d rounds", c.busyRounds), list(c.statements))
	}
}
