package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"
)

// machineSamples is how often each of the machine's own times is taken.
const machineSamples = 200

// describeMachine prints what nothing built on this machine can be faster than:
// a commit that waits for the disk, and a request to a server that does nothing.
func (r *rig) describeMachine(ctx context.Context, w io.Writer) (err error) {
	bare, err := r.startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, instances{bare}.stop()) }()
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
		_, _, err := bare.do(ctx, http.MethodGet, "/", nil)
		return err
	})
	if err != nil {
		return err
	}
	printf(w, "%d cores; p50 of a durable commit %s, of a statement %s, of a bare HTTP request %s\n",
		runtime.NumCPU(), millis(commit), millis(statement), millis(request))
	return nil
}

// timed returns the median time of many calls.
func timed(do func() error) (time.Duration, error) {
	took := make([]time.Duration, machineSamples)
	for i := range took {
		started := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		took[i] = time.Since(started)
	}
	return quantile(took, 0.5), nil
}
