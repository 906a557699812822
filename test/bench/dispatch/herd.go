package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	herdQueue   = "herd"
	herdWaiting = 1000
	// herdRest is the time without statements after which a round has ended.
	herdRest = 500 * time.Millisecond
	// herdPatience limits the time until a message is delivered.
	herdPatience = 15 * time.Second
)

// herdRound describes the effect of one message.
type herdRound struct {
	took                        time.Duration
	preflights, claims, waiting int
}

// herd has the waiting requests. The consumer that received a message waits until its round is measured.
type herd struct {
	*trial
	consumers *load.Workers
	won       chan time.Time
	again     chan struct{}
}

// measureHerd measures one message for which many requests of one group wait.
func measureHerd(ctx context.Context, r *suite, out *rig.Report) (err error) {
	if err := enoughFiles(herdWaiting); err != nil {
		return err
	}
	t, err := r.start(ctx, 1, []string{"g"}, lanes(herdQueue))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	h := &herd{t, load.NewWorkers(ctx), make(chan time.Time), make(chan struct{})}
	for range herdWaiting {
		h.consumers.Go(h.wait)
	}
	var rounds []herdRound
	// The first round fills caches and is not counted.
	for len(rounds) <= r.herdRounds && err == nil {
		var round herdRound
		if round, err = h.round(h.consumers.Context); err == nil {
			rounds = append(rounds, round)
		}
	}
	counts, err := t.finish(ctx, err, h.consumers)
	if err != nil {
		return err
	}
	out.Promises("", counts, true)
	reportHerd(out, rounds[1:])
	return nil
}

// wait pops until ctx ends.
func (h *herd) wait(ctx context.Context) error {
	c := h.NewConsumer(load.PopOptions{Queue: herdQueue, Batch: 1, AutoAck: true, Wait: longWait})
	for {
		d, err := c.Pop(ctx, true)
		if err != nil {
			return err
		}
		if len(d.Messages) == 0 {
			continue
		}
		select {
		case h.won <- d.At:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-h.again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// round pushes one message and measures its effect. Then the consumer that received the message waits for the next one.
func (h *herd) round(ctx context.Context) (round herdRound, err error) {
	server := h.servers[0]
	if err := h.waitArrived(ctx, server, herdWaiting); err != nil {
		return round, err
	}
	if err := rig.ResetStatements(ctx, h.admin, h.database); err != nil {
		return round, err
	}
	pushed, err := h.NewProducer(0).Push(ctx, time.Now())
	if err != nil {
		return round, err
	}
	timer := time.NewTimer(herdPatience)
	defer timer.Stop()
	select {
	case at := <-h.won:
		round.took = at.Sub(pushed.At)
	case <-timer.C:
		return round, fmt.Errorf("no consumer received the message within %s", herdPatience)
	case <-ctx.Done():
		return round, ctx.Err()
	}
	if err := h.waitQuiet(ctx, herdRest); err != nil {
		return round, err
	}
	all, err := h.statements(ctx)
	if err != nil {
		return round, err
	}
	health, err := server.Health(ctx)
	if err != nil {
		return round, err
	}
	round.preflights, round.claims, round.waiting = callsOf(all, "engine/store/preflight"), callsOf(all, "engine/store/claim"), health.Waiting
	select {
	case h.again <- struct{}{}:
		return round, nil
	case <-ctx.Done():
		return round, ctx.Err()
	}
}

// reportHerd reports the worst value of all rounds.
func reportHerd(out *rig.Report, rounds []herdRound) {
	worst := herdRound{claims: 1, waiting: herdWaiting - 1}
	for _, round := range rounds {
		worst.took = max(worst.took, round.took)
		worst.preflights = further(worst.preflights, round.preflights, 0)
		worst.claims = further(worst.claims, round.claims, 1)
		worst.waiting = further(worst.waiting, round.waiting, herdWaiting-1)
	}
	of := fmt.Sprintf(", worst of %d", len(rounds))
	out.Count("preflights"+of, worst.preflights, 0) // the push itself claims, so there is no preflight
	out.Count("claims"+of, worst.claims, 1)
	out.Count("still waiting"+of, worst.waiting, herdWaiting-1)
	out.Quick("answer of the push to answer of the pop"+of, worst.took, 25*time.Millisecond)
}

// further returns the number whose distance from target is larger.
func further(a, b, target int) int {
	if max(a-target, target-a) >= max(b-target, target-b) {
		return a
	}
	return b
}
