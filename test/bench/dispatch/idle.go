package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	idleWaiting = 1000
	// idlePoll is after how long each of the waiting requests is sent again.
	idlePoll = 10 * time.Second
)

// measureIdle: many wait and nothing happens.
func measureIdle(ctx context.Context, r *rig, out *report) error {
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

// idleOn spreads the waiting requests over some queues. The bare server holds
// as many requests at the same time, so that both meet the same machine.
func (r *rig) idleOn(ctx context.Context, out *report, n int) (err error) {
	servers, database, err := r.alone(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	server := servers[0]
	bare, err := r.startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, instances{bare}.stop()) }()
	queues, err := makeQueues(ctx, server.client, "idle", n, nil)
	if err != nil {
		return err
	}
	waiting := newCrowd(ctx)
	defer func() { err = errors.Join(err, waiting.leave()) }()
	for i := range idleWaiting {
		call := popCall{queue: queues[i%n], wait: idlePoll, autoAck: true}
		for _, c := range []*client{server.client, bare.client} {
			waiting.join(func(ctx context.Context) error { return consume(ctx, c, call, unexpected) })
		}
	}
	if err := r.arrived(waiting.ctx, server, database, idleWaiting); err != nil {
		return err
	}
	if err := r.forget(ctx, database); err != nil {
		return err
	}
	shares, err := cpuShares(waiting.ctx, r.idle, server.child, bare.child)
	if err != nil {
		return err
	}
	all, err := r.statements(ctx, database)
	if err != nil {
		return err
	}
	h, err := server.health(ctx)
	if err != nil {
		return err
	}
	on := fmt.Sprintf("%d waiting on %d queues, ", idleWaiting, n)
	asked := work(all)
	out.count(fmt.Sprintf("%sstatements in %s", on, r.idle), total(asked), 0)
	if len(asked) > 0 {
		out.remark(on+"what they were", list(asked))
	}
	out.note(on+"canaries", fmt.Sprint(callsOf(all, canary)))
	out.note(on+"still waiting", fmt.Sprint(h.Waiting))
	out.note(on+"processor: server, bare server", fmt.Sprintf("%.2f %%, %.2f %% of a core", 100*shares[0], 100*shares[1]))
	out.below(on+"difference", "%.2f %% of a core", 100*(shares[0]-shares[1]), 1)
	return nil
}

// cpuShares returns which share of a core each child used over a time.
func cpuShares(ctx context.Context, over time.Duration, children ...*child) ([]float64, error) {
	before := make([]time.Duration, len(children))
	shares := make([]float64, len(children))
	started := time.Now()
	for i, c := range children {
		var err error
		if before[i], err = c.cpu(); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, over); err != nil {
		return nil, err
	}
	for i, c := range children {
		used, err := c.cpu()
		if err != nil {
			return nil, err
		}
		shares[i] = float64(used-before[i]) / float64(time.Since(started))
	}
	return shares, nil
}
