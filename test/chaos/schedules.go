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
	"github.com/belfry-mq/belfry/test/chaos/ticks"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// scheduleFaults are the faults of a run with schedules, unless the user names others.
var scheduleFaults = []string{
	"kill-server", "cut-database", "silence-database", "end-sessions", "cut-listener", "lose-notifications", world.StepsDatabaseClock,
}

// tickPatience is the maximum time without progress, when everything works.
const tickPatience = time.Minute

var errNoTicks = errors.New("no schedule stored a message although everything works")

// runSchedules performs a run with schedules that are due each second, until they have stored the given number of messages and
// each fault was injected. Then it judges whether each instant has exactly one message. Its error lists the broken rules.
func runSchedules(ctx context.Context, s settings, out io.Writer, judge func(context.Context, *pgxpool.Pool) (ticks.Verdict, error)) error {
	if len(s.faults) == 0 {
		s.faults = scheduleFaults
	}
	faults, leftOut, err := world.Pick(ctx, s.faults, s.pooler)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "belfry-chaos-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	printf(out, "seed %d, %d servers, %d schedules until %d messages\n", s.seed, s.instances, s.schedules, s.ticks)
	for _, why := range leftOut {
		printf(out, "%s\n", why)
	}
	c := &chaos{settings: s, out: out, dir: dir, recorder: history.NewRecorder()}
	if c.world, err = world.New(ctx, dir, s.instances, faults, s.pooler); err == nil {
		err = c.tick(ctx, faults, judge)
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

// tick makes the schedules, injects faults, and judges.
func (c *chaos) tick(ctx context.Context, faults []world.Fault, judge func(context.Context, *pgxpool.Pool) (ticks.Verdict, error)) error {
	database := c.world.Database()
	if err := ticks.Start(ctx, database, c.schedules); err != nil {
		return err
	}
	choose := rand.New(rand.NewPCG(c.seed, 0))
	order := slices.Clone(faults)
	choose.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for injected := 0; ; injected++ {
		stored, err := ticks.Count(ctx, database)
		if err != nil {
			return err
		}
		if stored >= c.ticks && injected >= len(order) {
			break
		}
		if err := c.breakOnce(ctx, order[injected%len(order)], choose, stored); err != nil {
			return err
		}
	}
	// After the faults, the schedules still work.
	if err := waitUntil(ctx, errNoTicks, func() (bool, error) {
		stored, err := ticks.Count(ctx, database)
		return stored >= c.ticks+c.schedules, err
	}); err != nil {
		return err
	}
	if err := ticks.Stop(ctx, database); err != nil {
		return err
	}
	if err := waitUntil(ctx, errors.New("rows stay in the inbox"), func() (bool, error) {
		left, err := ticks.Left(ctx, database)
		return left == 0, err
	}); err != nil {
		return err
	}
	verdict, err := judge(ctx, database)
	if err != nil {
		return err
	}
	printf(c.out, "%s: %d instants, %d messages\n", short(c.recorder.Now()), verdict.Instants, verdict.Messages)
	if len(verdict.Broken) > 0 {
		return errors.New(strings.Join(verdict.Broken, "\n"))
	}
	return nil
}

// breakOnce injects a fault and waits until everything works.
func (c *chaos) breakOnce(ctx context.Context, f world.Fault, choose *rand.Rand, stored int) error {
	if !world.Pause(ctx, shortestQuiet+time.Duration(choose.Int64N(int64(longestQuiet-shortestQuiet)))) {
		return ctx.Err()
	}
	began := c.recorder.Now()
	result, err := c.world.Inject(ctx, f, choose)
	broken := c.recorder.Now()
	if err == nil {
		err = c.world.Recover(ctx)
	}
	printf(c.out, "%8s  %7d messages  %-22s broken %6s  recovered after %6s  %s\n", short(began), stored, f.Name, short(broken-began), short(c.recorder.Now()-broken), result.What)
	return errors.Join(err, ctx.Err())
}

// waitUntil looks until holds returns true. After tickPatience it returns late.
func waitUntil(ctx context.Context, late error, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, tickPatience)
	defer cancel()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if !world.Pause(ctx, probeInterval) {
			return late
		}
	}
}
