package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/limits"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// limitFaults are the faults of a run with limits, unless the user names others. A step of the clock of the database is not one of
// them: a lease has no end without a clock.
var limitFaults = []string{
	"kill-server", "cut-clients", "cut-database", "silence-database", "freeze-database", "end-sessions", "cut-listener", "lose-notifications", "lose-commits",
	"kill-postgres", "stop-server", "slow-database", "freeze-clients",
}

var errNoLeases = errors.New("a limited group gets no lease although everything works")

// judgeLimits returns the verdict about the leases between two instants.
type judgeLimits func(ctx context.Context, database *pgxpool.Pool, from, to time.Time) (limits.Verdict, error)

// runLimited performs a run with limited groups. Its error lists the broken rules.
func runLimited(ctx context.Context, s settings, out io.Writer, judge judgeLimits) error {
	if len(s.faults) == 0 {
		s.faults = limitFaults
	}
	faults, leftOut, err := world.Pick(ctx, s.faults, s.pooler)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "belfry-chaos-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	printf(out, "seed %d, %d servers, limited groups, faults for %s\n", s.seed, s.instances, s.duration)
	for _, why := range leftOut {
		printf(out, "%s\n", why)
	}
	c := &chaos{settings: s, out: out, dir: dir, recorder: history.NewRecorder()}
	if c.world, err = world.New(ctx, dir, s.instances, faults, s.pooler); err == nil {
		err = c.limit(ctx, faults, judge)
	}
	if c.world != nil {
		err = errors.Join(err, c.world.Close())
	}
	if err == nil && !s.keep {
		return os.RemoveAll(dir)
	}
	printf(out, "kept in %s: the logs of the servers\n", dir)
	return errors.Join(err, os.RemoveAll(dir+"/cluster"))
}

// limit runs the clients, injects faults, and judges.
func (c *chaos) limit(ctx context.Context, faults []world.Fault, judge judgeLimits) error {
	database := c.world.Database()
	cfg := limits.Config{Seed: c.seed, URLs: c.world.URLs(), Database: database, SQL: c.world.Clients()}
	// The messages suffice for the run and for a long recovery of each fault.
	enough := limits.Rate.Messages * int((c.duration+2*time.Minute)/time.Second)
	if err := limits.Prepare(ctx, cfg, enough); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		limits.Work(working, cfg)
	}()
	from := time.Now()
	err := c.breakLimited(ctx, faults)
	to := time.Now()
	stop()
	<-ended
	if err != nil {
		return err
	}
	if !world.Pause(ctx, limits.LeasesEnd) {
		return ctx.Err()
	}
	verdict, err := judge(ctx, database, from, to)
	if err != nil {
		return err
	}
	printf(c.out, "%s: %s\n", short(c.recorder.Now()), verdict)
	if len(verdict.Broken) > 0 {
		return errors.New(strings.Join(verdict.Broken[:min(len(verdict.Broken), 20)], "\n"))
	}
	return nil
}

// breakLimited injects faults until the duration is over and each was injected. Afterwards both groups get leases.
func (c *chaos) breakLimited(ctx context.Context, faults []world.Fault) error {
	choose := rand.New(rand.NewPCG(c.seed, 0))
	order := slices.Clone(faults)
	choose.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	until := time.Now().Add(c.duration)
	for injected := 0; injected < len(order) || time.Now().Before(until); injected++ {
		_, paced, err := limits.Delivered(ctx, c.world.Database())
		if err != nil {
			return err
		}
		if err := c.breakOnce(ctx, order[injected%len(order)], choose, paced); err != nil {
			return err
		}
	}
	few, paced, err := limits.Delivered(ctx, c.world.Database())
	if err != nil {
		return err
	}
	return waitUntil(ctx, errNoLeases, func() (bool, error) {
		fewNow, pacedNow, err := limits.Delivered(ctx, c.world.Database())
		return fewNow >= few+50 && pacedNow >= paced+50, err
	})
}
