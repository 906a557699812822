// Package bench runs load scenarios against a server, verifies the deliveries and reports the measurements. It knows
// only the URL of the server. The command `belfry bench` calls it.
//
// A scenario is one way to load a server: see scenarios. A trial is one run of a scenario on a new queue. After the
// load, consumers pop the remaining messages. Then the trial determines which messages are missing. Package load
// describes what is verified and measured.
//
// In a closed loop, producers pause while more than Window messages are in flight. So the reported end-to-end rate is
// a rate that the consumers can sustain. A larger window gives a slightly higher rate and much longer times.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/certificate"
	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

var (
	// ErrBroken says that the server violated a guarantee. The report names the guarantee.
	ErrBroken = errors.New("verification failed")
	// ErrInterrupted says that the run ended early.
	ErrInterrupted = errors.New("interrupted: not everything was verified")
)

// Run runs the scenarios one after the other. It blocks until the last scenario ends. The error is ErrBroken,
// ErrInterrupted if ctx has ended, or the reason why a scenario could not be measured. Even with an error, the report
// has the measurements so far.
func Run(ctx context.Context, s Settings) (Report, error) {
	report := Report{Started: time.Now()}
	if err := s.Validate(); err != nil {
		return report, err
	}
	chosen, err := s.chosen()
	var broken []string
	for i := 0; i < len(chosen) && err == nil; i++ {
		sc := chosen[i]
		o := Outcome{Scenario: sc.name, Settings: sc.settle(s)}
		err = o.repeat(ctx, sc, s)
		o.Median = medianOf(o.Runs)
		if len(o.Runs) > 0 {
			report.Outcomes = append(report.Outcomes, o)
		}
		if slices.ContainsFunc(o.Runs, func(r Result) bool { return len(r.Faults) > 0 }) {
			broken = append(broken, sc.name)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", sc.name, err)
		} else if ctx.Err() != nil {
			err = ErrInterrupted
		}
	}
	report.Verified = err == nil && len(broken) == 0
	if len(broken) > 0 {
		err = errors.Join(fmt.Errorf("%w: %s", ErrBroken, strings.Join(broken, ", ")), err)
	}
	return report, err
}

// repeat runs a scenario s.Repeat times.
func (o *Outcome) repeat(ctx context.Context, sc scenario, s Settings) error {
	for n := 1; n <= s.Repeat && ctx.Err() == nil; n++ {
		r, err := once(ctx, sc, s)
		if r != nil {
			r.Run = n
			o.Runs = append(o.Runs, *r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// once runs a scenario once, after a baseline if Settings request it. The result is nil if nothing was measured.
func once(ctx context.Context, sc scenario, s Settings) (*Result, error) {
	secure, err := certificate.Client(s.CAFile)
	if err != nil {
		return nil, err
	}
	c, err := load.NewClient(s.URL, secure)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if s.Token != "" {
		c.Authorize(s.Token)
	}
	t := newTrial(s, sc, c)
	var base *Baseline
	if s.Baseline && !sc.quiet {
		b, err := measureBaseline(ctx, t.Settings, sc.single)
		if ctx.Err() != nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		base = &b
	}
	stopWatch := func() (*Locks, error) { return nil, nil }
	if (s.Baseline || s.HoldSnapshot) && !sc.quiet {
		if stopWatch, err = watchLocks(ctx, s.DatabaseURL, s.HoldSnapshot); err != nil {
			return nil, err
		}
	}
	stop := showProgress(ctx, s.Progress, sc.name, t.Meter)
	err = t.run(ctx)
	stop()
	locks, failed := stopWatch()
	err = errors.Join(err, failed)
	if t.result.Scenario == "" {
		return nil, err
	}
	t.result.Locks, t.result.Baseline = locks, base
	if base != nil {
		base.compare(&t.result, sc.single)
	}
	return &t.result, err
}

// progressInterval is the time between two updates of the line on a terminal.
const progressInterval = time.Second

// showProgress updates a line on a terminal every second, until the returned function is called. This function clears
// the line. The benchmark continues if the terminal is closed.
func showProgress(ctx context.Context, w io.Writer, name string, m *load.Meter) (stop func()) {
	if w == nil {
		return func() {}
	}
	line := load.NewWorkers(ctx)
	line.Go(func(ctx context.Context) error {
		began := time.Now()
		var lastPushed, lastDelivered int64
		for load.Pause(ctx, progressInterval) == nil {
			pushed, delivered := m.Pushed.All.Load(), m.Delivered.All.Load()
			printf(w, "\r\x1b[K%s %3.0f s: %d/s pushed, %d/s delivered, %d and %d in total, %d errors", name,
				time.Since(began).Seconds(), pushed-lastPushed, delivered-lastDelivered, pushed, delivered, m.Failed.Load())
			lastPushed, lastDelivered = pushed, delivered
		}
		return nil
	})
	return func() {
		_ = line.Stop() // the worker returns no error
		printf(w, "\r\x1b[K")
	}
}
