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
	manyQueues  = 2000
	manyWaiting = 5000
	manyRate    = 200 // pushes a second
	// manySettle is the pause between the arrival of all requests and the reading of the memory.
	manySettle = 3 * time.Second
)

// measureMany measures many requests of many groups. A few of the requests receive messages.
func measureMany(ctx context.Context, r *suite, out *rig.Report) (err error) {
	if err := enoughFiles(manyWaiting); err != nil {
		return err
	}
	t, err := r.start(ctx, 1, []string{"g"}, lanes(queueNames("many", manyQueues)...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	// The second server has done no other work, so the growth of its memory is the memory of the waiting requests.
	if err := t.servers[0].Stop(); err != nil {
		return err
	}
	t.servers = nil
	if err := t.startServer(ctx); err != nil {
		return err
	}
	t.Client = t.servers[0].Client
	before, err := readMemory(ctx, t.servers[0])
	if err != nil {
		return err
	}
	waiting := load.NewWorkers(ctx)
	for i := range manyWaiting {
		waiting.Go(t.NewConsumer(load.PopOptions{Queue: t.queues[i%manyQueues], Batch: 1, AutoAck: true, Wait: longWait}).Loop)
	}
	err = t.manyPushes(waiting.Context, before, out)
	// Several consumers without a lease share a queue, and pushes overlap. So the order is not checked.
	counts, err := t.finish(ctx, err, waiting)
	if err != nil {
		return err
	}
	out.Promises("", counts, false)
	times := t.Meter.Times[load.TimeFromAnswer]
	out.NoteTime(fmt.Sprintf("%d messages to %d groups, p50", times.Count(), manyQueues), times, 0.5)
	out.Quick(fromAnswer+"p99", times.Quantile(0.99), 50*time.Millisecond)
	return bareMemory(ctx, out)
}

// manyPushes waits until all requests have arrived, reads the memory, and pushes.
func (t *trial) manyPushes(ctx context.Context, before memory, out *rig.Report) error {
	server := t.servers[0]
	if err := t.waitArrived(ctx, server, manyWaiting); err != nil {
		return err
	}
	if err := load.Pause(ctx, manySettle); err != nil {
		return err
	}
	after, err := readMemory(ctx, server)
	if err != nil {
		return err
	}
	out.Below(fmt.Sprintf("memory for each of %d waiting requests", manyWaiting), "%.1f KiB", perRequest(before.resident, after.resident), 20)
	out.Remark("the memory of a waiting request, reported by the server", after.since(before))
	if err := t.startMeasuring(ctx); err != nil {
		return err
	}
	now := time.Now()
	pacer := load.NewPacer(now, now.Add(t.manyFor), manyRate, 1)
	pushes := load.NewWorkers(ctx)
	for {
		start, ok := pacer.Next(pushes.Context)
		if !ok {
			break
		}
		pushes.Go(func(ctx context.Context) error {
			_, err := t.NewProducer(rand.IntN(manyQueues)).Push(ctx, start)
			return err
		})
	}
	if err := pushes.Wait(); err != nil {
		return err
	}
	if _, err := t.Ledger.WaitDrained(ctx, drainPatience); err != nil {
		return err
	}
	if after, err = readMemory(ctx, server); err != nil {
		return err
	}
	out.Remark("the memory of a waiting request after the pushes", after.since(before))
	all, err := t.statements(ctx)
	if err != nil {
		return err
	}
	pushed := int(t.Meter.Pushed.Within.Load())
	out.Remark("statements for each message (mean time)", describe(withoutCanaries(all), pushed))
	return nil
}

// bareMemory reports the memory of a bare HTTP server that holds manyWaiting requests.
func bareMemory(ctx context.Context, out *rig.Report) (err error) {
	bare, err := startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Stop()) }()
	before, err := bare.Memory()
	if err != nil {
		return err
	}
	traffic := &load.Traffic{Client: bare.Client, Meter: load.NewMeter(), Groups: []string{""}}
	waiting := load.NewWorkers(ctx)
	defer func() { err = errors.Join(err, waiting.Stop(), rig.Failures(traffic.Meter)) }()
	for range manyWaiting {
		waiting.Go(traffic.NewConsumer(load.PopOptions{Queue: "bare", Batch: 1, Wait: longWait}).Loop)
	}
	if err := load.Pause(ctx, manySettle); err != nil {
		return err
	}
	after, err := bare.Memory()
	if err != nil {
		return err
	}
	out.Note("memory for each request at the bare server", fmt.Sprintf("%.1f KiB", perRequest(before, after)))
	return nil
}

func perRequest(before, after int64) float64 { return float64(after-before) / 1024 / manyWaiting }
