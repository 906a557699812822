package bench

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

// produce pushes with n producers until the duration is over, and measures after the warmup.
// inFlight bounds the messages in flight in a closed loop; 0 does not.
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
	_ = workers.Wait() // only the end of ctx ends a producer early
	if now := time.Now(); now.Before(end) {
		end = now
		t.Meter.End(end)
	}
	missed := 0
	pacer.Missed(end, func(start time.Time) {
		missed++
		t.Meter.Time(load.TimePush, start, start, end)
	})
	if missed > 0 {
		t.note("the rate was not reached: %d pushes were due and not sent by the end, their wait until then is in the times", missed)
	}
}

// runPush measures producers, and empties the queue afterwards.
func runPush(ctx context.Context, t *trial) error {
	t.openLedger(t.Connections, false)
	t.produce(ctx, t.Connections, 0)
	t.result.Messages, _ = t.Meter.Messages()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.drainRest(ctx)
}

// runPop pushes a backlog and measures consumers until it is empty or the time is up.
func runPop(ctx context.Context, t *trial) error {
	t.openLedger(t.Connections, false)
	if err := t.prefill(ctx); err != nil {
		return err
	}
	t.Meter.Measure(time.Now(), time.Now().Add(t.Duration))
	consumers := t.startConsumers(ctx, t.Connections, func(group int) load.PopOptions {
		o := t.popOptions(group)
		o.Eager, o.Timed = true, true
		return o
	})
	timed, cancel := context.WithTimeout(ctx, t.Duration)
	_, _ = t.Ledger.WaitDrained(timed, t.Duration)
	cancel()
	t.Meter.End(time.Now())
	err := t.drain(ctx, consumers)
	_, t.result.Messages = t.Meter.Messages()
	return err
}

const (
	// fillBatch and fillProducers are for pushes that are not measured: they shall be fast and
	// not overload the server.
	fillBatch     = 500
	fillProducers = 4
)

// touch pushes a message to each lane before the measurement. Creating ten thousand partitions
// is a different load than using them.
func (t *trial) touch(ctx context.Context, n int) error {
	const batch = fillBatch / fillProducers
	workers := load.NewWorkers(ctx)
	for _, p := range t.NewProducers(min(n, fillProducers), batch, batch) {
		p.Batch = min(p.Batch, len(p.Lanes))
		pushes := (len(p.Lanes) + p.Batch - 1) / p.Batch
		workers.Go(func(ctx context.Context) error { return fill(ctx, p, func() bool { pushes--; return pushes >= 0 }) })
	}
	return workers.Wait()
}

// prefill pushes the backlog.
func (t *trial) prefill(ctx context.Context) error {
	batches := make(chan struct{}, t.Backlog/fillBatch+1)
	for range (t.Backlog + fillBatch - 1) / fillBatch {
		batches <- struct{}{}
	}
	close(batches)
	workers := load.NewWorkers(ctx)
	for _, p := range t.NewProducers(min(t.Connections, fillProducers), min(fillBatch, t.Backlog), t.PushPartitions) {
		workers.Go(func(ctx context.Context) error {
			return fill(ctx, p, func() bool { _, more := <-batches; return more })
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// fill pushes as often as more allows.
func fill(ctx context.Context, p *load.Producer, more func() bool) error {
	for ctx.Err() == nil && more() {
		if _, err := p.Push(ctx, time.Now()); err != nil {
			_ = load.Pause(ctx, load.AfterError)
		}
	}
	return ctx.Err()
}

// window returns the most messages in flight in a closed loop.
func (t *trial) window() int {
	if t.Window > 0 {
		return t.Window
	}
	const each = 4
	return each * t.Connections * max(t.Batch, t.PopBatch)
}

// runFlow measures producers and consumers together, in one group or several.
func runFlow(ctx context.Context, t *trial) error {
	groups := len(t.Traffic.Groups)
	producers := t.Producers
	if producers == 0 {
		producers = max(1, t.Connections/(groups+1))
	}
	t.openLedger(producers, true)
	consumers := t.startConsumers(ctx, max(1, (t.Connections-producers)/groups), t.popOptions)
	_ = t.touch(ctx, producers) // only the end of ctx ends it early
	t.produce(ctx, producers, t.window()*groups)
	err := t.drain(ctx, consumers)
	_, t.result.Messages = t.Meter.Messages()
	return err
}
