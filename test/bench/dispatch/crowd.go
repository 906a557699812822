package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// gatherPatience bounds the arrival of a crowd.
const gatherPatience = time.Minute

// crowd are loops that run until they are told to leave.
type crowd struct {
	// ctx ends with the first loop that fails.
	ctx    context.Context
	group  *errgroup.Group
	cancel context.CancelFunc
}

func newCrowd(ctx context.Context) *crowd {
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	return &crowd{ctx: ctx, group: group, cancel: cancel}
}

// join starts a loop. Its end because of the crowd's context is no error.
func (c *crowd) join(loop func(ctx context.Context) error) {
	c.group.Go(func() error {
		err := loop(c.ctx)
		if c.ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// leave ends all loops, waits for them and returns the first error of one.
func (c *crowd) leave() error {
	c.cancel()
	return c.group.Wait()
}

// consume pops until ctx ends, handing what comes to took.
func consume(ctx context.Context, c *client, call popCall, took func(d delivery) error) error {
	for ctx.Err() == nil {
		d, err := c.pop(ctx, call)
		if err != nil {
			return err
		}
		if len(d.Messages) == 0 {
			continue
		}
		if err := took(d); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// unexpected is what a crowd does with a message where none was pushed.
func unexpected(d delivery) error {
	return fmt.Errorf("%d messages came where none was pushed", len(d.Messages))
}

// arrived returns once n requests wait at the server and all of them have
// looked.
func (r *rig) arrived(ctx context.Context, in *instance, database string, n int) error {
	deadline := time.Now().Add(gatherPatience)
	for {
		h, err := in.health(ctx)
		switch {
		case err != nil:
			return err
		case h.Waiting == n:
			return r.quiet(ctx, database, time.Second)
		case time.Now().After(deadline):
			return fmt.Errorf("%d requests wait where %d should", h.Waiting, n)
		}
		if err := pause(ctx, startLook); err != nil {
			return err
		}
	}
}

// inParallel calls do for 0 to n-1, a few at a time.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	const atOnce = 16
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// makeQueues makes n queues and returns their names.
func makeQueues(ctx context.Context, c *client, prefix string, n int, options map[string]int) ([]string, error) {
	queues := make([]string, n)
	for i := range queues {
		queues[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	err := inParallel(ctx, n, func(ctx context.Context, i int) error { return c.configure(ctx, queues[i], options) })
	return queues, err
}

// enoughFiles says whether this process, and a child of it, may open n
// connections. The Go runtime has raised the limit as far as it may be raised.
func enoughFiles(n uint64) error {
	const spare = 500
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	if limit.Cur < n+spare {
		return fmt.Errorf("%d open files are allowed and %d are needed: raise the limit (ulimit -n)", limit.Cur, n+spare)
	}
	return nil
}
