package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	idleWaiting = 1000
	// idlePoll is the wait of each request, which is then sent again.
	idlePoll = 10 * time.Second
)

var errUnexpected = errors.New("messages arrived although no message was pushed")

// measureIdle: many requests wait and nothing happens.
func measureIdle(ctx context.Context, r *suite, out *report) error {
	if err := enoughFiles(2 * idleWaiting); err != nil {
		return err
	}
	for _, queues := range []int{1, idleWaiting} {
		if err := r.idleOn(ctx, out, queues); err != nil {
			return fmt.Errorf("waiting on %d queues: %w", queues, err)
		}
	}
	return nil
}

// idleOn spreads the waiting requests over n queues. The bare server holds as many requests at
// the same time, so that both share the machine.
func (r *suite) idleOn(ctx context.Context, out *report, n int) (err error) {
	t, err := r.start(ctx, 1, "", lanes(queueNames("idle", n)...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	server := t.servers[0]
	bare, err := startBare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Stop()) }()
	waiting := load.NewWorkers(ctx)
	defer func() { err = errors.Join(err, waiting.Stop(), t.Meter.Err()) }()
	for i := range idleWaiting {
		options := load.PopOptions{Queue: t.queues[i%n], Batch: 1, AutoAck: true, Wait: idlePoll}
		waiting.Go(t.NewConsumer(options).Loop)
		waiting.Go(t.NewConsumerAt(bare.Client, options).Loop)
	}
	if err := t.waitArrived(ctx, server, idleWaiting); err != nil {
		return err
	}
	if err := t.measure(ctx); err != nil {
		return err
	}
	shares, err := cpuShares(ctx, r.idle, server, bare)
	if err != nil {
		return err
	}
	all, err := t.statements(ctx)
	if err != nil {
		return err
	}
	h, err := server.Health(ctx)
	if err != nil {
		return err
	}
	if t.Ledger.Counts() != (load.Counts{}) {
		return errUnexpected
	}
	on := fmt.Sprintf("%d waiting on %d queues, ", idleWaiting, n)
	asked := work(all)
	out.count(fmt.Sprintf("%sstatements in %s", on, r.idle), total(asked), 0)
	if len(asked) > 0 {
		out.remark(on+"the statements", list(asked))
	}
	out.note(on+"canaries", fmt.Sprint(callsOf(all, canary)))
	out.note(on+"still waiting", fmt.Sprint(h.Waiting))
	out.note(on+"processor: server, bare server", fmt.Sprintf("%.2f %%, %.2f %% of a core", 100*shares[0], 100*shares[1]))
	out.below(on+"difference", "%.2f %% of a core", 100*(shares[0]-shares[1]), 1)
	return nil
}

// cpuShares returns the share of a core that each server uses over a time.
func cpuShares(ctx context.Context, over time.Duration, servers ...*rig.Server) ([]float64, error) {
	before := make([]time.Duration, len(servers))
	shares := make([]float64, len(servers))
	started := time.Now()
	for i, s := range servers {
		var err error
		if before[i], err = s.CPU(); err != nil {
			return nil, err
		}
	}
	if err := load.Pause(ctx, over); err != nil {
		return nil, err
	}
	for i, s := range servers {
		used, err := s.CPU()
		if err != nil {
			return nil, err
		}
		shares[i] = float64(used-before[i]) / float64(time.Since(started))
	}
	return shares, nil
}
