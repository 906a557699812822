package load

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// Workers are goroutines that share one context. The first error ends all of them.
type Workers struct {
	// Context ends with Stop or with the first worker that fails.
	Context context.Context //nolint:containedctx // it is the lifetime of the workers
	group   *errgroup.Group
	cancel  context.CancelFunc
}

// NewWorkers returns a group without workers; ctx bounds it.
func NewWorkers(ctx context.Context) *Workers {
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	return &Workers{Context: ctx, group: group, cancel: cancel}
}

// Go starts a worker. The error of an ended context is no failure.
func (w *Workers) Go(work func(ctx context.Context) error) {
	w.group.Go(func() error {
		err := work(w.Context)
		if w.Context.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			return nil
		}
		return err
	})
}

// Wait blocks until all workers have returned, and returns the first error.
func (w *Workers) Wait() error {
	defer w.cancel()
	return w.group.Wait()
}

// Stop ends the workers, waits for them and returns the first error.
func (w *Workers) Stop() error {
	w.cancel()
	return w.group.Wait()
}
