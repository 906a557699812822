package bench

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

// produce pushes with n producers until the duration is over, and measures after the warmup. inFlight limits the
// messages in flight in a closed loop. 0 means no limit.
func (t *trial) produce(ctx context.Context, n, inFlight int) {
	start := time.Now()
	from := start.Add(t.Warmup)
	end := from.Add(t.Duration)
	t.Meter.Measure(from, end)
	pacer := load.NewPacer(start, end, t.Rate, t.Batch)
	// The deadline also ends producers that wait for consumers.
	timed, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	workers := load.NewWorkers(timed)
	for _, p := range t.NewProducers(n, t.Batch, t.PushPartitions) {
		p.InFlight = inFlight
		workers.Go(func(ctx context.Context) error { return p.Loop(ctx, pacer) })
	}
	_ = workers.Wait() // a producer ends early only if ctx ends
	if now := time.Now(); now.Before(end) {
		end = now
		t.Meter.End(end)
	}
	unsent := 0
	pacer.Unsent(end, func(start time.Time) {
		unsent++
		t.Meter.Time(load.TimePush, start, start, end)
	})
	if unsent > 0 {
		t.note("the rate was not reached: %d planned pushes were not sent by the end; the times include their wait until the end", unsent)
	}
}

// runPush measures producers, and drains the queue afterwards.
func runPush(ctx context.Context, t *trial) error {
	t.openLedger(t.Connections, false)
	t.counted = &t.Meter.Pushed
	t.produce(ctx, t.Connections, 0)
	// The pops use leases, so the ledger can check the order across consumers.
	o := load.PopOptions{Batch: restBatch, Partitions: t.PopPartitions, Eager: true}
	return t.drain(ctx, t.startConsumers(ctx, min(t.Connections, 8), o))
}

// runPop pushes a backlog. Then it measures consumers until the queue is empty or the duration is over.
func runPop(ctx context.Context, t *trial) error {
	t.openLedger(t.Connections, false)
	if err := t.prefill(ctx); err != nil {
		return err
	}
	t.Meter.Measure(time.Now(), time.Now().Add(t.Duration))
	o := t.popOptions()
	o.Eager = true
	consumers := t.startConsumers(ctx, t.Connections, o)
	timed, cancel := context.WithTimeout(ctx, t.Duration)
	_, _ = t.Ledger.WaitDrained(timed, t.Duration)
	cancel()
	t.Meter.End(time.Now())
	return t.drain(ctx, consumers)
}

const (
	// fillBatch and fillProducers are for pushes that are not measured. Such pushes are fast but do not overload the
	// server.
	fillBatch     = 500
	fillProducers = 4
)

// touch pushes a message to each lane before the measurement, so that the measured pushes create no partitions.
func (t *trial) touch(ctx context.Context, n int) error {
	const batch = fillBatch / fillProducers
	producers := t.NewProducers(min(n, fillProducers), batch, batch)
	left := make([]int, len(producers))
	for i, p := range producers {
		p.Batch = min(p.Batch, len(p.Lanes))
		left[i] = (len(p.Lanes) + p.Batch - 1) / p.Batch
	}
	return fill(ctx, producers, func(i int) bool { left[i]--; return left[i] >= 0 })
}

// prefill pushes the backlog of messages.
func (t *trial) prefill(ctx context.Context) error {
	var left atomic.Int64
	left.Store(int64((t.Backlog + fillBatch - 1) / fillBatch))
	producers := t.NewProducers(min(t.Connections, fillProducers), min(fillBatch, t.Backlog), t.PushPartitions)
	return fill(ctx, producers, func(int) bool { return left.Add(-1) >= 0 })
}

// fill pushes with each producer i as long as more(i) returns true. Its only error is the error of ctx.
func fill(ctx context.Context, producers []*load.Producer, more func(i int) bool) error {
	workers := load.NewWorkers(ctx)
	for i, p := range producers {
		workers.Go(func(ctx context.Context) error {
			for ctx.Err() == nil && more(i) {
				if _, err := p.Push(ctx, time.Now()); err != nil {
					_ = load.Pause(ctx, load.AfterError)
				}
			}
			return nil
		})
	}
	return errors.Join(workers.Wait(), ctx.Err())
}

// runFlow measures producers and consumers together, in one group or several. In a closed loop, it limits the
// messages in flight.
func runFlow(ctx context.Context, t *trial) error {
	groups := len(t.Traffic.Groups)
	producers := cmp.Or(t.Producers, max(1, t.Connections/(groups+1)))
	window := cmp.Or(t.Window, 4*t.Connections*max(t.Batch, t.PopBatch))
	t.openLedger(producers, true)
	consumers := t.startConsumers(ctx, max(1, (t.Connections-producers)/groups), t.popOptions())
	_ = t.touch(ctx, producers) // touch ends early only if ctx ends
	t.produce(ctx, producers, window*groups)
	return t.drain(ctx, consumers)
}
