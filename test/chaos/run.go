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
	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/chaos/workload"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// These constants are the size of the workload. There are few partitions, so that clients contend for them. There are
// few clients, so that a small machine is not overloaded.
const (
	queues       = 3
	partitions   = 5
	producers    = 4
	sqlProducers = 3
	writers      = 2 // clients that write to an attached table
	sqlConsumers = 4
	consumers    = 4 // per group
)

const (
	// drainBound is the maximum time of the drain. It includes the end of extended leases and the messages held up by
	// faults.
	drainBound = time.Minute
	// These constants limit the random pause between two faults.
	shortestQuiet = 200 * time.Millisecond
	longestQuiet  = time.Second
)

// chaos is one run.
type chaos struct {
	settings
	out      io.Writer
	dir      string
	world    *world.World
	clients  *workload.Clients
	recorder *history.Recorder
	stalls   *stallMeter
	windows  []window
	worked   time.Duration // how long the clients ran
	changes  []change
}

// window is an injected fault, on the clock of the recorder. At recovered, everything worked again.
type window struct {
	fault string
	world.Result
	begin, end, recovered time.Duration
	stall                 time.Duration
}

// judged converts the window for the checker. The allowance is at most the duration of the window.
func (w window) judged() check.FaultWindow {
	lasted := w.recovered - w.begin
	return check.FaultWindow{Begin: w.begin, End: w.recovered, Allowance: min(lasted, w.Excuse), SQLAllowance: min(lasted, w.SQLAllowance)}
}

// run performs one chaos run. Its error lists the broken rules. After an error, a folder keeps the evidence.
func run(ctx context.Context, s settings, out io.Writer, judge judgeFunc) error {
	faults, leftOut, err := world.Pick(ctx, s.faults, s.pooler)
	if err != nil {
		return err
	}
	if s.instances < 1 {
		return fmt.Errorf("--instances is %d: give 1 or more", s.instances)
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
	c.recorder = history.NewRecorder() // the history begins when all servers run
	c.clients = workload.New(workload.Config{
		Seed: s.seed, URLs: c.world.URLs(), Recorder: c.recorder,
		Queues: queues, Partitions: partitions, Producers: producers, Consumers: consumers,
		Database: c.world.Clients(), SQLProducers: sqlProducers, Writers: writers, SQLConsumers: sqlConsumers,
	})
	c.world.PopUnread = c.clients.PopUnread
	c.world.Rewinding = func() func() {
		o := c.recorder.Begin(history.Operation{Kind: history.Rewound, Outcome: history.Done})
		return func() { c.recorder.End(o) }
	}
	c.stalls = newStallMeter(c.world.Database(), c.clients, c.recorder)
	err = c.runClients(ctx, faults)
	if ctx.Err() == nil {
		// The drain follows even after a failed recovery, because the judge expects drained queues.
		err = errors.Join(err, c.drain(ctx))
	}
	operations := c.recorder.Operations()
	c.clients.Resolve(operations)
	if ctx.Err() == nil {
		err = errors.Join(err, c.judgeRun(ctx, operations, judge))
		var counting error
		c.changes, counting = countChanges(ctx, c.world.Database(), workload.MovedGroups())
		err = errors.Join(err, counting)
	}
	begun := time.Now()
	err = errors.Join(err, c.world.Close())
	printf(out, "stopped in %s\n", short(time.Since(begun)))
	c.report(operations)
	return c.end(err)
}

// runClients runs the clients and injects faults. It blocks until the clients have ended.
func (c *chaos) runClients(ctx context.Context, faults []world.Fault) error {
	if err := c.clients.Prepare(ctx); err != nil {
		return err
	}
	begun := time.Now()
	working, stop := context.WithCancel(ctx)
	metering, endMetering := context.WithCancel(ctx)
	ended, metered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.clients.Work(ctx, working)
	}()
	go func() {
		defer close(metered)
		c.stalls.run(metering)
	}()
	err := c.injectFaults(ctx, faults)
	endMetering()
	<-metered
	stop()
	<-ended
	c.worked = time.Since(begun)
	return errors.Join(err, ctx.Err())
}

// injectFaults injects one fault after the other, until the duration is over and every fault was injected. It injects
// every fault once before it repeats a fault. After each fault it waits until everything works.
func (c *chaos) injectFaults(ctx context.Context, faults []world.Fault) error {
	choose := rand.New(rand.NewPCG(c.seed, 0))
	until := time.Now().Add(c.duration)
	var order []int
	for len(c.windows) < len(faults) || time.Now().Before(until) {
		if !world.Pause(ctx, shortestQuiet+time.Duration(choose.Int64N(int64(longestQuiet-shortestQuiet)))) {
			return nil
		}
		if len(order) == 0 {
			order = choose.Perm(len(faults))
		}
		f := faults[order[0]]
		order = order[1:]
		c.stalls.take() // removes earlier stalls
		v := window{fault: f.Name, begin: c.recorder.Now()}
		result, err := c.world.Inject(ctx, f, choose)
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

// drain pops and completes all messages of all groups.
func (c *chaos) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainBound)
	defer cancel()
	begun := c.recorder.Now()
	// Some clients pushed messages by SQL without a notification.
	if _, err := c.world.Database().Exec(ctx, "SELECT belfry.wake()"); err != nil {
		return fmt.Errorf("waking the sequencer: %w", err)
	}
	err := c.clients.Drain(ctx, func(ctx context.Context) (int64, error) {
		return workload.Remaining(ctx, c.world.Database(), c.clients.Reads())
	})
	printf(c.out, "drained in %s\n", short(c.recorder.Now()-begun))
	return err
}

// judgeRun returns the errors of the judge and the complaints of the clients.
func (c *chaos) judgeRun(ctx context.Context, operations []history.Operation, judge judgeFunc) error {
	err := judge(ctx, evidence{
		operations: operations, windows: c.windows, samples: c.stalls.samples, queues: c.clients.Queues(), reads: c.clients.Reads(), database: c.world.Database(), began: c.recorder.Began(),
	})
	windows, comparing := c.clients.Sums(ctx, c.world.Database())
	printf(c.out, "%d windows were summed by cycles\n", windows)
	err = errors.Join(err, comparing, findMark(ctx, c.world.Database(), principals.Mark))
	for _, complaint := range c.clients.Complaints() {
		err = errors.Join(err, errors.New(complaint))
	}
	return err
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
