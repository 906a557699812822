package bench

import (
	"context"
	"fmt"
	"time"
)

// produce pushes with n producers from now until the duration is over, and
// measures after the warmup. most bounds the messages on the way in a closed loop.
func (t *trial) produce(ctx context.Context, n, most int) {
	start := time.Now()
	from := start.Add(t.Warmup)
	end := from.Add(t.Duration)
	t.meter.frame(from, end)
	at := newPace(start, end, t.Rate, t.Batch)
	// Producers that wait for consumers end with the time too.
	timed, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	crew := newCrew(timed)
	for _, p := range t.producers(n, t.Batch) {
		crew.join(func(ctx context.Context) { p.loop(ctx, at, most) })
	}
	crew.loops.Wait()
	crew.cancel()
	if now := time.Now(); now.Before(end) {
		end = now
		t.meter.end(end)
	}
	missed := 0
	at.missed(end, func(due time.Time) {
		missed++
		t.meter.time(timePush, due, due, end)
	})
	if missed > 0 {
		t.result.Notes = append(t.result.Notes, fmt.Sprintf(
			"the rate was not reached: %d pushes were due and not sent by the end, their wait until then is in the times", missed))
	}
}

// runPush measures producers, and empties the queue afterwards.
func runPush(ctx context.Context, t *trial) error {
	t.openBook(t.Connections)
	t.produce(ctx, t.Connections, 0)
	t.result.Messages, _ = t.meter.counted()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.takeRest(ctx)
}

// runPop makes a backlog and measures consumers until it is gone or the time is
// up.
func runPop(ctx context.Context, t *trial) error {
	t.openBook(t.Connections)
	if err := t.prefill(ctx); err != nil {
		return err
	}
	consumers := newCrew(ctx)
	t.meter.frame(time.Now(), time.Now().Add(t.Duration))
	for range t.Connections {
		c := t.consumer(0, t.PopBatch, t.PopPartitions, t.AutoAck)
		c.timed = true
		consumers.join(func(ctx context.Context) { c.loop(ctx, true) })
	}
	timed, cancel := context.WithTimeout(ctx, t.Duration)
	_, _ = t.book.drained(timed, t.Duration)
	cancel()
	t.meter.end(time.Now())
	err := t.drain(ctx, consumers)
	_, t.result.Messages = t.meter.counted()
	return err
}

const (
	// largeBatch and fewProducers are for pushes that are not measured: they shall
	// be quick and not too much for anybody.
	largeBatch   = 500
	fewProducers = 4
)

// touch pushes a message to each lane, unmeasured: making ten thousand partitions
// is another load than using them.
func (t *trial) touch(ctx context.Context, n int) {
	crew := newCrew(ctx)
	for _, p := range t.producers(min(n, fewProducers), largeBatch/fewProducers) {
		crew.join(func(ctx context.Context) {
			p.batch = min(p.batch, len(p.lanes))
			p.spread = p.batch
			for pushed := 0; pushed < len(p.lanes) && ctx.Err() == nil; pushed += p.batch {
				if _, err := p.push(ctx, time.Now()); err != nil && pause(ctx, afterError) != nil {
					return
				}
			}
		})
	}
	crew.loops.Wait()
	crew.cancel()
}

// prefill pushes the backlog.
func (t *trial) prefill(ctx context.Context) error {
	const batch = largeBatch
	left := make(chan struct{}, t.Backlog/batch+1)
	for range (t.Backlog + batch - 1) / batch {
		left <- struct{}{}
	}
	close(left)
	crew := newCrew(ctx)
	defer crew.leave()
	for _, p := range t.producers(min(t.Connections, fewProducers), min(batch, t.Backlog)) {
		crew.join(func(ctx context.Context) {
			for range left {
				if ctx.Err() != nil {
					return
				}
				if _, err := p.push(ctx, time.Now()); err != nil && pause(ctx, afterError) != nil {
					return
				}
			}
		})
	}
	crew.loops.Wait()
	return ctx.Err()
}

// window is how many messages may be on the way in a closed loop.
func (t *trial) window() int {
	if t.Window > 0 {
		return t.Window
	}
	const each = 4
	return each * t.Connections * max(t.Batch, t.PopBatch)
}

// runFlow measures producers and consumers together, in one group or several.
func runFlow(ctx context.Context, t *trial) error {
	groups := len(t.groups)
	producers := t.Producers
	if producers == 0 {
		producers = max(1, t.Connections/(groups+1))
	}
	each := max(1, (t.Connections-producers)/groups)
	t.openBook(producers)
	t.book.timed = true
	consumers := newCrew(ctx)
	for group := range t.groups {
		for range each {
			c := t.consumer(group, t.PopBatch, t.PopPartitions, t.AutoAck)
			consumers.join(func(ctx context.Context) { c.loop(ctx, false) })
		}
	}
	t.touch(ctx, producers)
	t.produce(ctx, producers, t.window()*groups)
	err := t.drain(ctx, consumers)
	_, t.result.Messages = t.meter.counted()
	return err
}
