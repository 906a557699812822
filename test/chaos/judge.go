package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/workload"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

const (
	// wakeBound is the maximum time that a waiting consumer may miss a ready message while there is no fault. A wake
	// takes milliseconds. The bound is higher, because the machine may be busy.
	wakeBound = 2 * time.Second
	// longestLease is the maximum lease time after an extend, plus 1 s for the request.
	longestLease = workload.LeaseTime + 2*time.Second
)

// evidence is the result of a run. The database is idle and drained.
type evidence struct {
	operations []history.Operation
	windows    []window
	samples    []check.Sample
	queues     []string
	reads      []workload.Read
	database   *pgxpool.Pool
	began      time.Time // start of the run on the wall clock
}

// judgeFunc returns the broken rules as an error, or nil.
type judgeFunc func(ctx context.Context, e evidence) error

// brokenError has the violations of a run.
type brokenError struct{ violations []check.Violation }

func (e *brokenError) Error() string {
	lines := make([]string, len(e.violations))
	for i, v := range e.violations {
		lines[i] = v.String()
	}
	return strings.Join(lines, "\n")
}

// judge checks all rules. For waits that overlap a fault or its recovery, it adds the excuse of the fault to the
// bound, but at most the duration of the fault with its recovery.
func judge(ctx context.Context, e evidence) error {
	state, err := check.ReadAll(ctx, e.database, e.queues, e.samples, e.began)
	if err != nil {
		return err
	}
	options := check.Options{WakeBound: wakeBound, LeaseDuration: longestLease, IdleAfter: world.IdleAfter}
	for _, w := range e.windows {
		options.Windows = append(options.Windows, w.judged())
	}
	if violations := check.Run(e.operations, state, options); len(violations) > 0 {
		return &brokenError{violations}
	}
	return nil
}
