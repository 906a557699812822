package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// idleRequests is the number of waiting requests.
	idleRequests = 1000
	// idlePollWait is how long a request waits before the client sends it again.
	idlePollWait = 10 * time.Second
)

var errUnexpectedMessages = errors.New("messages arrived although no message was pushed")

// measureIdle measures many waiting requests while no message arrives.
func measureIdle(ctx context.Context, r *suite, out *rig.Report) error {
	if err := enoughFiles(2 * idleRequests); err != nil {
		return err
	}
	for _, queues := range []int{1, idleRequests} {
		if err := r.measureIdleQueues(ctx, out, queues); err != nil {
			return fmt.Errorf("waiting on %d queues: %w", queues, err)
		}
	}
	return nil
}

// measureIdleQueues spreads the waiting requests over n queues. A bare HTTP server holds the same number of requests at the
// same time. The difference between the two servers is the cost of Belfry.
func (r *suite) measureIdleQueues(ctx context.Context, out *rig.Report, n int) (err error) {
	t, err := r.start(ctx, 1, []string{""}, lanes(queueNames("idle", n)...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	server := t.servers[0]
	bare, err := startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Stop()) }()
	waiting := load.NewWorkers(ctx)
	defer func() { err = errors.Join(err, waiting.Stop(), rig.Failures(t.Meter)) }()
	for i := range idleRequests {
		options := load.PopOptions{Queue: t.queues[i%n], Batch: 1, AutoAck: true, Wait: idlePollWait}
		waiting.Go(t.NewConsumer(options).Loop)
		options.Client = bare.Client
		waiting.Go(t.NewConsumer(options).Loop)
	}
	if err := t.waitArrived(ctx, server, idleRequests); err != nil {
		return err
	}
	if err := t.waitWritten(ctx); err != nil {
		return err
	}
	if err := t.startMeasuring(ctx); err != nil {
		return err
	}
	shares, err := cpuShares(ctx, r.idleFor, server, bare)
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
		return errUnexpectedMessages
	}
	on := fmt.Sprintf("%d waiting on %d queues, ", idleRequests, n)
	asked := slices.DeleteFunc(withoutCanaries(all), isTimed)
	out.Count(fmt.Sprintf("%sstatements in %s", on, r.idleFor), total(asked), 0)
	if len(asked) > 0 {
		out.Remark(on+"the statements (without timed ones)", list(asked))
	}
	out.Note(on+"timed statements: canaries and sweeps", list(slices.DeleteFunc(all, func(s load.Statement) bool { return !isTimed(s) })))
	out.Note(on+"requests still waiting", fmt.Sprint(h.Waiting))
	out.Note(on+"processor: server, bare server", fmt.Sprintf("%.2f %%, %.2f %% of a core", 100*shares[0], 100*shares[1]))
	out.Below(on+"processor: server minus bare server", "%.2f %% of a core", 100*(shares[0]-shares[1]), 1)
	return nil
}

// isTimed reports whether the server runs a statement at fixed times, even without requests. These are the canary of the
// listener, every 10 s, and the sweeps.
func isTimed(s load.Statement) bool {
	return s.Text == canary || s.Text == "postgres/listen/notify" || strings.HasPrefix(s.Text, "engine/sweep/")
}

// waitWritten blocks until the server has written the history of the minute in which the requests arrived.
func (t *trial) waitWritten(ctx context.Context) error {
	if err := rig.ResetStatements(ctx, t.admin, t.database); err != nil {
		return err
	}
	for {
		all, err := t.statements(ctx)
		if err != nil || callsOf(all, "insight/history/write") > 0 {
			return err
		}
		if err := load.Pause(ctx, statementInterval); err != nil {
			return err
		}
	}
}

// cpuShares blocks for duration. It returns the share of one core that each server used in that time.
func cpuShares(ctx context.Context, duration time.Duration, servers ...*rig.Server) ([]float64, error) {
	before := make([]time.Duration, len(servers))
	shares := make([]float64, len(servers))
	started := time.Now()
	for i, s := range servers {
		var err error
		if before[i], err = s.CPU(); err != nil {
			return nil, err
		}
	}
	if err := load.Pause(ctx, duration); err != nil {
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
