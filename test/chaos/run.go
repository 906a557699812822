package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/workload"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// The size of the workload: few enough partitions that clients meet, and few
// enough clients that a small machine is not the bottleneck.
const (
	queues       = 3
	partitions   = 5
	producers    = 4
	sqlProducers = 3
	writers      = 2 // to an attached table
	sqlConsumers = 4
	consumers    = 4 // of each group
)

const (
	// drainBound is how long the drain may take: leases that were extended must
	// end, and what could not be read during faults is read.
	drainBound = time.Minute
	// The pause between two faults, in which nothing is broken.
	shortestQuiet = 200 * time.Millisecond
	longestQuiet  = time.Second
)

// chaos is one run.
type chaos struct {
	settings
	out      io.Writer
	dir      string
	world    *world.World
	crew     *workload.Crew
	recorder *history.Recorder
	stalls   *stallMeter
	windows  []window
	worked   time.Duration // how long the clients did
	taken    []taken
}

// window is a fault that happened, on the recorder's clock. Everything worked
// again at recovered.
type window struct {
	fault string
	world.Result
	begin, end, recovered time.Duration
	stall                 time.Duration
}

// judged is what the judge makes of it: nothing excuses more time than it lasted.
func (w window) judged() check.Window {
	lasted := w.recovered - w.begin
	return check.Window{Begin: w.begin, End: w.recovered, Allowance: min(lasted, w.Excuse), Silence: min(lasted, w.Silence)}
}

// run is a chaos run from start to end. Its error says what was not as promised;
// what explains it is then kept in a folder.
func run(ctx context.Context, s settings, out io.Writer, judge judgeFunc) error {
	faults, leftOut, err := world.Pick(ctx, s.faults, s.pooler)
	if err != nil {
		return err
	}
	if s.instances < 1 {
		return fmt.Errorf("%d instances cannot serve: give 1 or more", s.instances)
	}
	dir, err := os.MkdirTemp("", "belfry-chaos-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	c := &chaos{settings: s, out: out, dir: dir, recorder: history.NewRecorder()}
	printf(out, "seed %d, %d servers, faults for %s\n", s.seed, s.instances, s.duration)
	for _, why := range leftOut {
		printf(out, "%s\n", why)
	}
	if c.world, err = world.New(ctx, dir, s.instances, faults, s.pooler); err != nil {
		return c.end(err)
	}
	if err := check.Watch(ctx, c.world.Database()); err != nil {
		return c.end(errors.Join(err, c.world.Close()))
	}
	c.recorder = history.NewRecorder() // the history begins when everything runs
	c.crew = workload.New(workload.Config{
		Seed: s.seed, URLs: c.world.URLs(), Recorder: c.recorder,
		Queues: queues, Partitions: partitions, Producers: producers, Consumers: consumers,
		Database: c.world.Clients(), SQLProducers: sqlProducers, Writers: writers, SQLConsumers: sqlConsumers,
	})
	c.stalls = newStallMeter(c.world.Database(), c.crew, c.recorder)
	err = c.live(ctx, faults)
	if ctx.Err() == nil {
		// Also when something did not recover: the judge expects that nothing is left.
		err = errors.Join(err, c.drain(ctx))
	}
	operations := c.recorder.Operations()
	c.crew.Resolve(operations)
	if ctx.Err() == nil {
		err = errors.Join(err, c.verdict(ctx, operations, judge))
		var counting error
		c.taken, counting = tally(ctx, c.world.Database(), workload.MovedGroups())
		err = errors.Join(err, counting)
	}
	begun := time.Now()
	err = errors.Join(err, c.world.Close())
	printf(out, "stopped in %s\n", short(time.Since(begun)))
	c.report(operations)
	return c.end(err)
}

// live runs the clients and breaks things meanwhile. It returns when the clients
// have ended.
func (c *chaos) live(ctx context.Context, faults []world.Fault) error {
	if err := c.crew.Prepare(ctx); err != nil {
		return err
	}
	begun := time.Now()
	working, stop := context.WithCancel(ctx)
	metering, endMetering := context.WithCancel(ctx)
	ended, metered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.crew.Work(ctx, working)
	}()
	go func() {
		defer close(metered)
		c.stalls.run(metering)
	}()
	err := c.stir(ctx, faults)
	endMetering()
	<-metered
	stop()
	<-ended
	c.worked = time.Since(begun)
	return errors.Join(err, ctx.Err())
}

// stir runs one fault after the other until the time is over, all of them before
// any comes again, and waits after each until everything works.
func (c *chaos) stir(ctx context.Context, faults []world.Fault) error {
	choose := rand.New(rand.NewPCG(c.seed, 0))
	until := time.Now().Add(c.duration)
	var order []int
	for time.Now().Before(until) {
		if !world.Pause(ctx, shortestQuiet+time.Duration(choose.Int64N(int64(longestQuiet-shortestQuiet)))) {
			return nil
		}
		if len(order) == 0 {
			order = choose.Perm(len(faults))
		}
		f := faults[order[0]]
		order = order[1:]
		c.stalls.take() // what was before is not the fault's
		v := window{fault: f.Name, begin: c.recorder.Now()}
		result, err := c.world.Break(ctx, f, choose)
		v.end, v.Result = c.recorder.Now(), result
		if err == nil && ctx.Err() == nil {
			err = c.world.Recover(ctx)
		}
		v.recovered, v.stall = c.recorder.Now(), c.stalls.take()
		c.windows = append(c.windows, v)
		outcome := "recovered after"
		if err != nil {
			outcome = "NOT recovered after"
		}
		printf(c.out, "%8s  %-22s broken %6s  %s %6s  longest stall %6s  %s\n", short(v.begin), v.fault,
			short(v.end-v.begin), outcome, short(v.recovered-v.end), short(v.stall), v.What)
		if err != nil {
			return err
		}
	}
	return nil
}

// drain ends with nothing left for any group.
func (c *chaos) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainBound)
	defer cancel()
	begun := c.recorder.Now()
	// Some have pushed by SQL without a notification.
	if _, err := c.world.Database().Exec(ctx, "SELECT belfry.wake()"); err != nil {
		return fmt.Errorf("waking the sequencer: %w", err)
	}
	err := c.crew.Drain(ctx, func(ctx context.Context) (int64, error) {
		return remaining(ctx, c.world.Database(), c.crew.Reads())
	})
	printf(c.out, "drained in %s\n", short(c.recorder.Now()-begun))
	return err
}

// verdict joins what the judge and the clients have to say.
func (c *chaos) verdict(ctx context.Context, operations []history.Operation, judge judgeFunc) error {
	err := judge(ctx, evidence{
		operations: operations, windows: c.windows, samples: c.stalls.samples, queues: c.crew.Queues(), reads: c.crew.Reads(), database: c.world.Database(), began: c.recorder.Began(),
	})
	for _, complaint := range c.crew.Complaints() {
		err = errors.Join(err, errors.New(complaint))
	}
	return err
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
