package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrBroken says that the server broke a promise; the report says which.
	ErrBroken = errors.New("verification failed")
	// ErrInterrupted says that the run ended early.
	ErrInterrupted = errors.New("interrupted: not everything was verified")
)

// Run runs the scenarios one after the other. The report holds what was measured
// also when there is an error: ErrBroken, ErrInterrupted when ctx has ended, or
// what kept it from measuring.
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
		err := o.runs(ctx, sc, s)
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

// runs runs a scenario as often as it shall, each time with a baseline before.
func (o *Outcome) runs(ctx context.Context, sc scenario, s Settings) error {
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

// once makes one run. The result is nil when there is nothing to tell.
func once(ctx context.Context, sc scenario, s Settings) (*Result, error) {
	c, err := newClient(s.URL)
	if err != nil {
		return nil, err
	}
	defer c.close()
	t := newTrial(s, sc, c)
	var base *Baseline
	if s.Baseline && !sc.quiet {
		b, err := baseline(ctx, t.Settings, sc.single)
		if ctx.Err() != nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		base = &b
	}
	watched := func() (*Locks, error) { return nil, nil }
	if (s.Baseline || s.HoldSnapshot) && !sc.quiet {
		if watched, err = watch(ctx, s.DatabaseURL, s.HoldSnapshot); err != nil {
			return nil, err
		}
	}
	stop := follow(ctx, s.Progress, sc.name, t.meter)
	err = t.run(ctx)
	stop()
	locks, failed := watched()
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
