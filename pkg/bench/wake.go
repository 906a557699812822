package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

const (
	// wakeGap is the least time between two pushes, so that all consumers wait again. A random
	// part keeps the pushes out of step with other periodic work.
	wakeGap    = 300 * time.Millisecond
	wakeSpread = 50 * time.Millisecond
	// herdPause is how long a second consumer may take to receive the same message.
	herdPause = 200 * time.Millisecond
)

// runWake: consumers wait, and a message arrives now and then.
func runWake(ctx context.Context, t *trial) error {
	return t.oneByOne(ctx, func(ctx context.Context) error { return load.Pause(ctx, wakeGap+rand.N(wakeSpread)) })
}

// runHerd: all consumers wait in one group. The ledger detects a message that two receive.
func runHerd(ctx context.Context, t *trial) error {
	t.Traffic.Groups = []string{"herd"}
	return t.oneByOne(ctx, func(ctx context.Context) error { return load.Pause(ctx, herdPause) })
}

// oneByOne pushes a message, waits for its delivery, and pauses before the next push. The next
// push would wake a consumer that missed this message.
func (t *trial) oneByOne(ctx context.Context, between func(ctx context.Context) error) error {
	t.openLedger(1, true)
	consumers := t.startConsumers(ctx, t.Connections, func(group int) load.PopOptions {
		return load.PopOptions{Queue: t.queue, Group: group, Batch: 10, Partitions: 1, AutoAck: t.AutoAck}
	})
	producer := t.NewProducer(0)
	from := time.Now().Add(t.Warmup)
	until := from.Add(t.Duration)
	t.Meter.Measure(from, until)
	// In the first half of the warmup the consumers connect, in the second caches fill.
	err := load.Pause(ctx, t.Warmup/2)
	for err == nil && time.Now().Before(until) {
		if _, failed := producer.Push(ctx, time.Now()); failed != nil {
			err = load.Pause(ctx, load.AfterError)
			continue
		}
		var delivered bool
		if delivered, err = t.Ledger.WaitDrained(ctx, t.Patience); err == nil && !delivered {
			break
		}
		if err == nil {
			err = between(ctx)
		}
	}
	if err != nil {
		return errors.Join(err, consumers.Stop())
	}
	err = t.drain(ctx, consumers)
	_, t.result.Messages = t.Meter.Messages()
	return err
}
