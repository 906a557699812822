package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

// machineSamples is the number of samples for each measured time.
const machineSamples = 200

// describeMachine prints the lower limits of this machine: the time of a commit that waits for the disk, of a statement,
// and of a request to a server that does nothing.
func (r *suite) describeMachine(ctx context.Context, out *rig.Report) (err error) {
	bare, err := startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Stop()) }()
	commit, err := timed(func() error {
		_, err := r.admin.Exec(ctx, "SELECT pg_logical_emit_message(true, 'bench', 'x')")
		return err
	})
	if err != nil {
		return fmt.Errorf("timing a commit: %w", err)
	}
	statement, err := timed(func() error {
		_, err := r.admin.Exec(ctx, "SELECT 1")
		return err
	})
	if err != nil {
		return fmt.Errorf("timing a statement: %w", err)
	}
	request, err := timed(func() error {
		_, err := bare.Call(ctx, http.MethodGet, "/", nil, nil)
		return err
	})
	if err != nil {
		return err
	}
	out.Printf("%d cores; p50 of a durable commit %s, of a statement %s, of a bare HTTP request %s\n",
		runtime.NumCPU(), rig.Millis(commit), rig.Millis(statement), rig.Millis(request))
	return nil
}

// timed returns the median time of many calls.
func timed(do func() error) (time.Duration, error) {
	times := load.NewTimes()
	for range machineSamples {
		started := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		times.Add(time.Since(started))
	}
	return times.Quantile(0.5), nil
}
