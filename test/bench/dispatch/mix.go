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
	mixInstances  = 2
	mixQueues     = 4
	mixPartitions = 6
	// mixConsumers is the number of consumers of each queue at each instance.
	mixConsumers = 3
	mixWait      = 5 * time.Second
	mixWarmup    = 2 * time.Second
	mixBatch     = 10
	// mixPush is the largest number of messages in one push.
	mixPush = 3
	// The time between two pushes to a partition is mixGapLeast plus a random part of mixGapSpread.
	mixGapLeast, mixGapSpread = 50 * time.Millisecond, 200 * time.Millisecond
	doubleAssignments         = "belfry_smart_poll_double_assignment_errors_total"
)

// measureMix measures producers and consumers at two instances at the same time.
func measureMix(ctx context.Context, r *suite, out *rig.Report) (err error) {
	var all []load.Lane
	for _, queue := range queueNames("mix", mixQueues) {
		for p := range mixPartitions {
			all = append(all, load.Lane{Queue: queue, Partition: fmt.Sprintf("p%d", p)})
		}
	}
	t, err := r.start(ctx, mixInstances, []string{"g"}, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	consumers := load.NewWorkers(ctx)
	for _, queue := range t.queues {
		for _, server := range t.servers {
			for range mixConsumers {
				consumers.Go(t.NewConsumer(load.PopOptions{Client: server.Client, Queue: queue, Batch: mixBatch, Wait: mixWait}).Loop)
			}
		}
	}
	producers := load.NewWorkers(consumers.Context)
	end := time.Now().Add(mixWarmup + r.mixFor)
	for lane := range all {
		producers.Go(func(ctx context.Context) error { return t.mixProduce(ctx, lane, end) })
	}
	// During the warmup, the groups join and the server creates the partitions.
	if err = load.Pause(producers.Context, mixWarmup); err == nil {
		err = t.startMeasuring(ctx)
	}
	if err = errors.Join(err, producers.Wait()); err == nil {
		_, err = t.Ledger.WaitDrained(consumers.Context, drainPatience)
	}
	counts, err := t.finish(ctx, err, consumers)
	if err != nil {
		return err
	}
	out.Promises("", counts, true)
	for i, server := range t.servers {
		doubled, err := metric(ctx, server.Client, doubleAssignments)
		if err != nil {
			return err
		}
		out.Never(fmt.Sprintf("double assignments of instance %d", i+1), int(doubled))
	}
	pushed := int(t.Meter.Pushed.Within.Load())
	out.Note("messages pushed", fmt.Sprintf("%d, %.0f a second", pushed, float64(pushed)/r.mixFor.Seconds()))
	out.NoteTime(fromAnswer+"p50", t.Meter.Times[load.TimeFromAnswer], 0.5)
	out.NoteTime(fromAnswer+"p99", t.Meter.Times[load.TimeFromAnswer], 0.99)
	asked, err := t.statements(ctx)
	if err != nil {
		return err
	}
	out.Remark("statements for each message (mean time)", describe(withoutCanaries(asked), pushed))
	return nil
}

// mixProduce pushes to one lane, each time at a random instance. A push starts after the answer to the previous push, so
// the order is known.
func (t *trial) mixProduce(ctx context.Context, lane int, end time.Time) error {
	producer := t.NewProducer(lane)
	for time.Now().Before(end) {
		producer.Client = t.servers[rand.IntN(len(t.servers))].Client
		producer.Batch = 1 + rand.IntN(mixPush)
		if _, err := producer.Push(ctx, time.Now()); err != nil {
			return err
		}
		if err := load.Pause(ctx, mixGapLeast+rand.N(mixGapSpread)); err != nil {
			return err
		}
	}
	return nil
}
