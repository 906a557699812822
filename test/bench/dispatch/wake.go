package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// wakeGap is the least time between two pushes. In this time the consumer starts to wait again. A random part, at most
	// wakeSpread, keeps the pushes out of step with periodic work.
	wakeGap    = 300 * time.Millisecond
	wakeSpread = 50 * time.Millisecond
	// wakeWarmup is the number of pushes that fill caches and prepare statements.
	wakeWarmup = 10
)

const (
	fromAnswer = "answer of the push to answer of the pop, "
	fromStart  = "start of the push to answer of the pop, "
)

// measureWake measures one waiting consumer that gets a message every 300 to 350 ms. The targets are for a consumer with a
// lease. With autoAck the claim is also the ack, so the delivery waits for the disk.
func measureWake(ctx context.Context, r *suite, out *rig.Report) error {
	m, err := r.wakes(ctx, out, "leased, ", 1, false)
	if err != nil {
		return fmt.Errorf("leased: %w", err)
	}
	out.Quick("leased, "+fromAnswer+"p50", m.Times[load.TimeFromAnswer].Quantile(0.5), time.Millisecond)
	out.Quick("leased, "+fromAnswer+"p99", m.Times[load.TimeFromAnswer].Quantile(0.99), 4*time.Millisecond)
	out.Quick("leased, "+fromStart+"p50", m.Times[load.TimeFromStart].Quantile(0.5), 2500*time.Microsecond)
	out.NoteTime("leased, "+fromStart+"p99", m.Times[load.TimeFromStart], 0.99)
	if m, err = r.wakes(ctx, out, "autoAck, ", 1, true); err != nil {
		return fmt.Errorf("autoAck: %w", err)
	}
	out.NoteTime("autoAck, "+fromAnswer+"p50", m.Times[load.TimeFromAnswer], 0.5)
	out.NoteTime("autoAck, "+fromAnswer+"p99", m.Times[load.TimeFromAnswer], 0.99)
	out.NoteTime("autoAck, "+fromStart+"p50", m.Times[load.TimeFromStart], 0.5)
	out.NoteTime("autoAck, "+fromStart+"p99", m.Times[load.TimeFromStart], 0.99)
	return nil
}

// measureInstances measures the same as measureWake, but the consumer waits at another instance.
func measureInstances(ctx context.Context, r *suite, out *rig.Report) error {
	m, err := r.wakes(ctx, out, "", 2, false)
	if err != nil {
		return err
	}
	out.Quick(fromAnswer+"p50", m.Times[load.TimeFromAnswer].Quantile(0.5), 15*time.Millisecond)
	out.NoteTime(fromAnswer+"p99", m.Times[load.TimeFromAnswer], 0.99)
	out.NoteTime(fromStart+"p50", m.Times[load.TimeFromStart], 0.5)
	return nil
}

// wakes pushes to the first of n instances and pops at the last one.
func (r *suite) wakes(ctx context.Context, out *rig.Report, how string, n int, autoAck bool) (m *load.Meter, err error) {
	t, err := r.start(ctx, n, []string{""}, lanes("wake"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	popped := t.servers[n-1]
	consumers := load.NewWorkers(ctx)
	consumers.Go(t.NewConsumer(load.PopOptions{Client: popped.Client, Queue: "wake", Batch: 10, AutoAck: autoAck, Wait: longWait}).Loop)
	if err = t.waitArrived(consumers.Context, popped, 1); err == nil {
		err = t.pushOneByOne(consumers.Context)
	}
	counts, err := t.finish(ctx, err, consumers)
	if err != nil {
		return nil, err
	}
	out.Promises(how, counts, true)
	all, err := t.statements(ctx)
	if err != nil {
		return nil, err
	}
	out.Remark(fmt.Sprintf("%sstatements for each of %d messages (mean time)", how, r.samples), describe(withoutCanaries(all), r.samples))
	return t.Meter, nil
}

// pushOneByOne pushes a message, waits for its delivery, and pauses. The wait is needed because the next push would also
// wake a consumer that missed this message.
func (t *trial) pushOneByOne(ctx context.Context) error {
	producer := t.NewProducer(0)
	for i := range wakeWarmup + t.samples {
		if i == wakeWarmup {
			if err := t.startMeasuring(ctx); err != nil {
				return err
			}
		}
		if _, err := producer.Push(ctx, time.Now()); err != nil {
			return err
		}
		if delivered, err := t.Ledger.WaitDrained(ctx, drainPatience); err != nil || !delivered {
			return err
		}
		if err := load.Pause(ctx, wakeGap+rand.N(wakeSpread)); err != nil {
			return err
		}
	}
	return nil
}
