package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

var (
	// ErrBroken says that the server broke a promise; the report names the promise.
	ErrBroken = errors.New("verification failed")
	// ErrInterrupted says that the run ended early.
	ErrInterrupted = errors.New("interrupted: not everything was verified")
)

// Run runs the scenarios one after the other. It blocks until the last one ends. The error is
// ErrBroken, ErrInterrupted if ctx has ended, or the reason why a scenario could not be measured.
// With an error the report has the measurements so far.
func Run(ctx context.Context, s Settings) (Report, error) {
	report := Report{Started: time.Now()}
	if err := s.Validate(); err != nil {
		return report, err
	}
	chosen, err := s.chosen()
	if err != nil {
		return report, err
	}
	var broken []string
	for _, sc := range chosen {
		o := Outcome{Scenario: sc.name, Settings: sc.settle(s)}
		err := o.repeat(ctx, sc, s)
		o.Median = medianOf(o.Runs)
		if len(o.Runs) > 0 {
			report.Outcomes = append(report.Outcomes, o)
		}
		for i := range o.Runs {
			if len(o.Runs[i].Faults) > 0 {
				broken = append(broken, sc.name)
				break
			}
		}
		if err != nil {
			return report, errors.Join(brokenBy(broken), fmt.Errorf("%s: %w", sc.name, err))
		}
		if ctx.Err() != nil {
			return report, errors.Join(brokenBy(broken), ErrInterrupted)
		}
	}
	report.Verified = len(broken) == 0
	return report, brokenBy(broken)
}

func brokenBy(scenarios []string) error {
	if len(scenarios) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBroken, strings.Join(scenarios, ", "))
}

// repeat runs a scenario s.Repeat times.
func (o *Outcome) repeat(ctx context.Context, sc scenario, s Settings) error {
	for n := range s.Repeat {
		if ctx.Err() != nil {
			return nil
		}
		r, err := once(ctx, sc, s)
		if r != nil {
			r.Run = n + 1
			o.Runs = append(o.Runs, *r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// once makes one run, after a baseline if one is wanted. The result is nil if nothing was measured.
func once(ctx context.Context, sc scenario, s Settings) (*Result, error) {
	c, err := load.NewClient(s.URL)
	if err != nil {
		return nil, err
	}
	defer c.Close()
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
	t.result.Locks = locks
	err = errors.Join(err, failed)
	if t.result.Scenario == "" {
		return nil, err
	}
	if base != nil {
		base.compare(&t.result, sc.single)
		t.result.Baseline = base
	}
	return &t.result, err
}
