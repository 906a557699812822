package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// wakeGap is the least time between two pushes, so that each finds everybody
	// asleep; a random part on top keeps it out of step with anything else.
	wakeGap    = 300 * time.Millisecond
	wakeSpread = 50 * time.Millisecond
	// longWait is the longest a pop may wait.
	longWait = 10 * time.Minute
)

// measureWake: one waiting consumer, and a message now and then. The targets are
// for a consumer as it comes, with a lease. With autoAck the claim is the ack: it
// waits for the disk, and is never handed over.
func measureWake(ctx context.Context, r *rig, out *report) error {
	for _, autoAck := range []bool{false, true} {
		how := "leased, "
		if autoAck {
			how = "autoAck, "
		}
		fromAnswer, fromStart, err := r.wakes(ctx, out, how, 1, autoAck)
		if err != nil {
			return fmt.Errorf("%s%w", how, err)
		}
		const answered, started = "answer of the push to answer of the pop, ", "start of the push to answer of the pop, "
		if autoAck {
			out.note(how+answered+"p50", millis(quantile(fromAnswer, 0.5)))
			out.note(how+answered+"p99", millis(quantile(fromAnswer, 0.99)))
			out.note(how+started+"p50", millis(quantile(fromStart, 0.5)))
		} else {
			out.quick(how+answered+"p50", quantile(fromAnswer, 0.5), time.Millisecond)
			out.quick(how+answered+"p99", quantile(fromAnswer, 0.99), 4*time.Millisecond)
			out.quick(how+started+"p50", quantile(fromStart, 0.5), 2500*time.Microsecond)
		}
		out.note(how+started+"p99", millis(quantile(fromStart, 0.99)))
	}
	return nil
}

// measureInstances: the same with the consumer at another instance.
func measureInstances(ctx context.Context, r *rig, out *report) error {
	fromAnswer, fromStart, err := r.wakes(ctx, out, "", 2, false)
	if err != nil {
		return err
	}
	out.quick("answer of the push to answer of the pop, p50", quantile(fromAnswer, 0.5), 15*time.Millisecond)
	out.note("answer of the push to answer of the pop, p99", millis(quantile(fromAnswer, 0.99)))
	out.note("start of the push to answer of the pop, p50", millis(quantile(fromStart, 0.5)))
	return nil
}

// wakes pushes to the first of n instances and pops at the last.
func (r *rig) wakes(ctx context.Context, out *report, how string, n int, autoAck bool) (fromAnswer, fromStart []time.Duration, err error) {
	servers, database, err := r.alone(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	to, from := servers[0], servers[n-1]
	const queue = "wake"
	if err := to.configure(ctx, queue, nil); err != nil {
		return nil, nil, err
	}
	book := newLedger()
	consumer := newCrowd(ctx)
	consumer.join(func(ctx context.Context) error {
		return consume(ctx, from.client, popCall{queue: queue, wait: longWait, batch: 10, autoAck: autoAck}, func(d delivery) error {
			for _, m := range d.Messages {
				book.popped(lane{queue, m.Partition}, m.Data.N, d.at)
			}
			if autoAck {
				return nil
			}
			return from.ack(ctx, d, "")
		})
	})
	err = r.pushNowAndThen(consumer.ctx, to, from, database, queue, book)
	if err = errors.Join(err, consumer.leave()); err != nil {
		return nil, nil, err
	}
	if err := book.search(ctx, to.client, ""); err != nil {
		return nil, nil, err
	}
	all, err := r.statements(ctx, database)
	if err != nil {
		return nil, nil, err
	}
	book.judge(out, how, true)
	out.remark(fmt.Sprintf("%sstatements for each of %d messages (mean time)", how, r.samples), describe(work(all), r.samples))
	fromAnswer, fromStart = book.times()
	return fromAnswer, fromStart, nil
}

func (r *rig) pushNowAndThen(ctx context.Context, to, from *instance, database, queue string, book *ledger) error {
	at := lane{queue, "Default"}
	push := func() error {
		n := book.next(at)
		sent, answered, err := to.push(ctx, item{Queue: at.queue, Partition: at.partition, Payload: number{n}})
		if err != nil {
			return err
		}
		book.stored(at, n, sent, answered)
		// Before the next push, which would wake a consumer that missed this one.
		if err := book.drained(ctx); err != nil {
			return err
		}
		return pause(ctx, wakeGap+rand.N(wakeSpread))
	}
	if err := r.arrived(ctx, from, database, 1); err != nil {
		return err
	}
	// The first messages meet empty caches and statements not prepared yet.
	for range 10 {
		if err := push(); err != nil {
			return err
		}
	}
	book.forgetTimes()
	if err := r.forget(ctx, database); err != nil {
		return err
	}
	for range r.samples {
		if err := push(); err != nil || !book.complete() {
			return err
		}
	}
	return nil
}
