package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	herdWaiting = 1000
	// herdRest is how long nothing may happen before a round counts as over.
	herdRest = 500 * time.Millisecond
	// herdPatience bounds the delivery of a round.
	herdPatience = 15 * time.Second
)

// herdRound is what one message did.
type herdRound struct {
	took                        time.Duration
	preflights, claims, waiting int
}

// measureHerd: many wait for one group, and one message comes.
func measureHerd(ctx context.Context, r *rig, out *report) (err error) {
	if err := enoughFiles(herdWaiting); err != nil {
		return err
	}
	servers, database, err := r.alone(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	server := servers[0]
	const queue, group = "herd", "g"
	if err := server.configure(ctx, queue, nil); err != nil {
		return err
	}
	book := newLedger()
	// The winner is held back until its round has been looked at.
	won, again := make(chan delivery), make(chan struct{})
	herd := newCrowd(ctx)
	for range herdWaiting {
		herd.join(func(ctx context.Context) error {
			call := popCall{queue: queue, group: group, wait: longWait, autoAck: true}
			return consume(ctx, server.client, call, func(d delivery) error {
				book.popped(lane{queue, d.Messages[0].Partition}, d.Messages[0].Data.N, d.at)
				select {
				case won <- d:
				case <-ctx.Done():
					return ctx.Err()
				}
				select {
				case <-again:
				case <-ctx.Done():
				}
				return ctx.Err()
			})
		})
	}
	var rounds []herdRound
	one := func() error {
		round, err := r.herdOnce(herd.ctx, server, database, lane{queue, "Default"}, book, won)
		if err != nil {
			return err
		}
		rounds = append(rounds, round)
		select {
		case again <- struct{}{}:
			return nil
		case <-herd.ctx.Done():
			return herd.ctx.Err()
		}
	}
	// One round more than wanted: the first meets empty caches.
	for range r.herdRounds + 1 {
		if err = one(); err != nil {
			break
		}
	}
	if err = errors.Join(err, herd.leave()); err != nil {
		return err
	}
	if err := book.search(ctx, server.client, group); err != nil {
		return err
	}
	book.judge(out, "", true)
	judgeHerd(out, rounds[1:])
	return nil
}

func (r *rig) herdOnce(ctx context.Context, server *instance, database string, to lane, book *ledger, won <-chan delivery) (herdRound, error) {
	var round herdRound
	if err := r.arrived(ctx, server, database, herdWaiting); err != nil {
		return round, err
	}
	if err := r.forget(ctx, database); err != nil {
		return round, err
	}
	n := book.next(to)
	sent, answered, err := server.push(ctx, item{Queue: to.queue, Partition: to.partition, Payload: number{n}})
	if err != nil {
		return round, err
	}
	book.stored(to, n, sent, answered)
	timer := time.NewTimer(herdPatience)
	defer timer.Stop()
	select {
	case d := <-won:
		round.took = d.at.Sub(answered)
	case <-timer.C:
		return round, fmt.Errorf("nobody got the message within %s", herdPatience)
	case <-ctx.Done():
		return round, ctx.Err()
	}
	if err := r.quiet(ctx, database, herdRest); err != nil {
		return round, err
	}
	all, err := r.statements(ctx, database)
	if err != nil {
		return round, err
	}
	h, err := server.health(ctx)
	if err != nil {
		return round, err
	}
	round.preflights, round.claims, round.waiting = callsOf(all, "store/preflight"), callsOf(all, "store/claim"), h.Waiting
	return round, nil
}

// judgeHerd reports the worst of the rounds.
func judgeHerd(out *report, rounds []herdRound) {
	worst := herdRound{preflights: 1, claims: 1, waiting: herdWaiting - 1}
	for _, round := range rounds {
		worst.took = max(worst.took, round.took)
		worst.preflights = further(worst.preflights, round.preflights, 1)
		worst.claims = further(worst.claims, round.claims, 1)
		worst.waiting = further(worst.waiting, round.waiting, herdWaiting-1)
	}
	of := fmt.Sprintf(", worst of %d", len(rounds))
	out.count("preflights"+of, worst.preflights, 1)
	out.count("claims"+of, worst.claims, 1)
	out.count("still waiting"+of, worst.waiting, herdWaiting-1)
	out.quick("answer of the push to answer of the pop"+of, worst.took, 25*time.Millisecond)
}

// further returns which of two numbers is further from target.
func further(a, b, target int) int {
	if max(a-target, target-a) >= max(b-target, target-b) {
		return a
	}
	return b
}
