package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// timerSlots are the queues of each kind.
	timerSlots = 10
	// timerStagger sets the queues apart in time.
	timerStagger = 20 * time.Millisecond
	// timerLength is the delay, the window and the lease.
	timerLength = 2 * time.Second
	// Of the time between the last request and the first instant, this much at
	// its ends is not looked at.
	timerAfter, timerBefore = 300 * time.Millisecond, 200 * time.Millisecond
	// timerPatience is how late something may come before it counts as stuck.
	timerPatience = 10 * time.Second
	timerTarget   = 20 * time.Millisecond
)

// timerKind is one reason why a message becomes due although nothing happens.
type timerKind struct {
	name, option string
	// messages are pushed one after the other and come together: the second
	// keeps a window open.
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
	queue string
	next  int // the number of the next message
	came  chan timedDelivery
}

// timedDelivery is what came, and for a lease the delivery it came after.
type timedDelivery struct{ got, first delivery }

// instant is when it was due, by the database's clock, which is ours as well:
// both run on this machine. A lease began a little before its delivery came, so
// earliest is the instant before which it cannot have been due.
func (t *timedDelivery) instant(k timerKind) (instant, earliest time.Time) {
	if k.leased {
		return t.first.at.Add(timerLength), t.first.sent.Add(timerLength)
	}
	last := t.got.Messages[len(t.got.Messages)-1].CreatedAt.Add(timerLength)
	return last, last
}

// measureTimers: things become due because time passes.
func measureTimers(ctx context.Context, r *rig, out *report) (err error) {
	servers, database, err := r.alone(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	server := servers[0]
	var slots []*timerSlot
	for _, kind := range timerKinds {
		queues, err := makeQueues(ctx, server.client, kind.name, timerSlots, map[string]int{kind.option: int(timerLength.Seconds())})
		if err != nil {
			return err
		}
		for _, queue := range queues {
			slots = append(slots, &timerSlot{timerKind: kind, queue: queue, came: make(chan timedDelivery, 1)})
		}
	}
	waiting := newCrowd(ctx)
	for _, s := range slots {
		waiting.join(func(ctx context.Context) error { return s.consume(ctx, server.client) })
	}
	var book *timerBook
	// The first round meets empty caches and is not counted.
	for round := 0; err == nil && round <= r.timerRounds && (book == nil || book.stuck == 0); round++ {
		if round <= 1 {
			book = newTimerBook()
		}
		err = r.timerRound(waiting.ctx, server, database, slots, book)
	}
	if err = errors.Join(err, waiting.leave()); err != nil {
		return err
	}
	book.judge(out)
	return nil
}

// consume keeps one request waiting. Of a queue with leases it lets the first
// lease expire and completes what comes then.
func (s *timerSlot) consume(ctx context.Context, c *client) error {
	call := popCall{queue: s.queue, wait: longWait, batch: 10, autoAck: !s.leased}
	var first delivery
	return consume(ctx, c, call, func(d delivery) error {
		if s.leased && first.LeaseID == "" {
			first = d
			return nil
		}
		if s.leased {
			if err := c.ack(ctx, d, ""); err != nil {
				return err
			}
		}
		select {
		case s.came <- timedDelivery{d, first}:
			first = delivery{}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// begin pushes what is to come later.
func (s *timerSlot) begin(ctx context.Context, c *client) error {
	for i := range s.messages {
		if i > 0 {
			if err := pause(ctx, timerStagger); err != nil {
				return err
			}
		}
		if _, _, err := c.push(ctx, item{Queue: s.queue, Payload: number{s.next}}); err != nil {
			return err
		}
		s.next++
	}
	return nil
}

// timerRound sets every timer once, looks whether the database is left alone
// until the first instant, and collects what comes.
func (r *rig) timerRound(ctx context.Context, server *instance, database string, slots []*timerSlot, book *timerBook) error {
	if err := r.arrived(ctx, server, database, len(slots)); err != nil {
		return err
	}
	firstInstant := time.Now().Add(timerLength)
	beginning := newCrowd(ctx)
	for i, s := range slots {
		beginning.join(func(ctx context.Context) error {
			if err := pause(ctx, time.Duration(i%timerSlots)*timerStagger); err != nil {
				return err
			}
			return s.begin(ctx, server.client)
		})
	}
	if err := beginning.group.Wait(); err != nil {
		return err
	}
	if err := pause(ctx, timerAfter); err != nil {
		return err
	}
	if err := r.forget(ctx, database); err != nil {
		return err
	}
	looked := time.Now()
	if err := pause(ctx, time.Until(firstInstant.Add(-timerBefore))); err != nil {
		return err
	}
	all, err := r.statements(ctx, database)
	if err != nil {
		return err
	}
	book.between(time.Since(looked), work(all))
	patience, cancel := context.WithTimeout(ctx, timerLength+timerPatience)
	defer cancel()
	for _, s := range slots {
		select {
		case t := <-s.came:
			book.came(s.timerKind, &t)
		case <-patience.Done():
			book.stuck++
		}
	}
	return ctx.Err()
}

// timerBook collects the rounds of timers.
type timerBook struct {
	late                  map[string][]time.Duration
	early, partial, stuck int
	watched               time.Duration
	asked, roundsAsked    int
	statements            []statement
}

func newTimerBook() *timerBook { return &timerBook{late: map[string][]time.Duration{}} }

func (b *timerBook) came(k timerKind, t *timedDelivery) {
	instant, earliest := t.instant(k)
	b.late[k.name] = append(b.late[k.name], t.got.at.Sub(instant))
	if t.got.at.Before(earliest) {
		b.early++
	}
	if len(t.got.Messages) != k.messages {
		b.partial++
	}
}

// between notes what ran while nothing was due.
func (b *timerBook) between(watched time.Duration, asked []statement) {
	b.watched += watched
	b.asked += total(asked)
	b.statements = append(b.statements, asked...)
	if len(asked) > 0 {
		b.roundsAsked++
	}
}

func (b *timerBook) judge(out *report) {
	out.never("stuck", b.stuck)
	out.never("delivered before the instant", b.early)
	out.never("delivered in parts or more than once", b.partial)
	for _, k := range timerKinds {
		late := b.late[k.name]
		out.note(fmt.Sprintf("%s: lateness of %d, p50", k.name, len(late)), millis(quantile(late, 0.5)))
		out.quick(k.name+": lateness, p95", quantile(late, 0.95), timerTarget)
	}
	out.count(fmt.Sprintf("statements in %.1f s between request and instant", b.watched.Seconds()), b.asked, 0)
	if b.asked > 0 {
		out.remark(fmt.Sprintf("what they were, in %d rounds", b.roundsAsked), list(b.statements))
	}
}
