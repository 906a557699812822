package bench

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// wakeGap is the least time between two pushes, so that each finds everybody
	// asleep; a random part on top keeps it out of step with anything else.
	wakeGap    = 300 * time.Millisecond
	wakeSpread = 50 * time.Millisecond
	// herdRest is how long a second one may take to get the same message.
	herdRest = 200 * time.Millisecond
)

// runWake: consumers wait, and a message comes now and then.
func runWake(ctx context.Context, t *trial) error {
	return t.oneByOne(ctx, func(ctx context.Context) error { return pause(ctx, wakeGap+rand.N(wakeSpread)) })
}

// runHerd: all wait in one group. The ledger sees it when a message comes to two.
func runHerd(ctx context.Context, t *trial) error {
	t.groups = []string{"herd"}
	return t.oneByOne(ctx, func(ctx context.Context) error { return pause(ctx, herdRest) })
}

// oneByOne pushes a message, waits until it has come, and rests before the next,
// which would wake a consumer that missed this one.
func (t *trial) oneByOne(ctx context.Context, rest func(ctx context.Context) error) error {
	t.openBook(1)
	t.book.timed = true
	consumers := newCrew(ctx)
	for range t.Connections {
		c := t.consumer(0, 10, 1, t.AutoAck)
		consumers.join(func(ctx context.Context) { c.loop(ctx, false) })
	}
	producer := t.producers(1, 1)[0]
	from := time.Now().Add(t.Warmup)
	until := from.Add(t.Duration)
	t.meter.frame(from, until)
	// The warmup is for the crowd to gather first, and for caches then.
	err := pause(ctx, t.Warmup/2)
	for err == nil && time.Now().Before(until) {
		if _, failed := producer.push(ctx, time.Now()); failed != nil {
			err = pause(ctx, afterError)
			continue
		}
		var came bool
		if came, err = t.book.drained(ctx, t.Patience); err == nil && !came {
			break
		}
		if err == nil {
			err = rest(ctx)
		}
	}
	if err != nil {
		consumers.leave()
		return err
	}
	err = t.drain(ctx, consumers)
	_, t.result.Messages = t.meter.counted()
	return err
}
