package sqlwait

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// probeWant is the maximum number of due partitions that a probe lists.
	probeWant = 200
	// probeTimeout bounds the preflight of a probe.
	probeTimeout = 5 * time.Second
)

// probeResult is the result of a probe.
type probeResult int

const (
	probeEmpty   probeResult = iota // nothing is poppable until the ticket wakes
	probeUnknown                    // the probe must be repeated soon
	probeReady                      // a pop finds a message, unless another transaction holds the cursor
)

// probe takes the ticket of the target and then probes once. probe always returns a ticket. held means that the waiters must not
// be notified yet, even if the probe finds messages.
func (w *Watcher) probe(ctx context.Context, waiter queue.SQLWaiter, held bool) (*readiness.Ticket, probeResult) {
	select {
	case w.probing <- struct{}{}:
		defer func() { <-w.probing }()
	case <-ctx.Done():
		return w.Readiness.Ticket(), probeUnknown
	}
	req := &queue.PopRequest{Queue: waiter.Queue, Group: waiter.Group, Partition: waiter.Partition}
	target, registered, ok, err := w.Store.Find(ctx, req)
	keys := readiness.CreationKeys(req)
	if ok && registered {
		keys = []readiness.Key{readiness.TargetKey(target)}
	}
	ticket := w.Readiness.Ticket(keys...)
	switch {
	case err != nil:
		return ticket, w.probeFailed(ctx, waiter, err)
	case !ok:
		// The queue may have been created before the ticket was taken.
		if _, _, ok, err = w.Store.Find(ctx, req); err == nil && !ok {
			return ticket, probeEmpty
		}
		return ticket, probeUnknown
	case !registered:
		return ticket, probeReady // a pop registers the group, or continues its join
	case w.Proven() && w.Readiness.KnownEmpty(target):
		return ticket, probeEmpty
	}
	result, err := w.probeAndSettle(ctx, req, target, held)
	if err != nil {
		return ticket, w.probeFailed(ctx, waiter, err)
	}
	return ticket, result
}

// probeAndSettle probes and settles drained cursors, until a probe finds no further drained cursors. This is necessary, because
// no push to a cursor that is marked ready is announced.
//
// If held is true, it settles the cursors with messages too. Such a cursor may have no poppable message, because the log has gaps
// or a failed message waits for its retry.
func (w *Watcher) probeAndSettle(ctx context.Context, req *queue.PopRequest, target queue.Target, held bool) (probeResult, error) {
	settled := map[int64]bool{}
	for {
		result, due, err := w.preflight(ctx, req, target)
		if err != nil || result == probeReady && !held {
			return result, err
		}
		partitions := due.drained
		if held {
			partitions = append(partitions, due.filled...)
		}
		fresh := 0
		for _, partition := range partitions {
			if !settled[partition] {
				settled[partition] = true
				fresh++
			}
		}
		if fresh == 0 {
			return result, nil
		}
		w.Store.Settle(ctx, target.Group, partitions)
	}
}

// probeFailed logs a failed probe and returns its result. A name that the database cannot hold will
// never exist, so its probe is not repeated.
func (w *Watcher) probeFailed(ctx context.Context, waiter queue.SQLWaiter, err error) probeResult {
	if ctx.Err() == nil && w.mayWarn() {
		w.Log.Warn("probing for a SQL waiter failed",
			zap.String("queue", waiter.Queue), zap.String("consumer_group", waiter.Group), zap.Error(err))
	}
	var refused *queue.Error
	if errors.As(err, &refused) && refused.Code == queue.CodeInvalid {
		return probeEmpty
	}
	return probeUnknown
}

// duePartitions are the partitions that are marked ready. drained have no messages left by SQL consumers. filled have messages.
type duePartitions struct{ drained, filled []int64 }

// preflight probes the target as belfry.pop does.
func (w *Watcher) preflight(ctx context.Context, req *queue.PopRequest, target queue.Target) (probeResult, duePartitions, error) {
	observation := w.Readiness.Observe(target)
	results, err := w.Store.Preflight(ctx, []queue.Probe{{Target: target, Want: probeWant}}, probeTimeout)
	if err != nil {
		return probeUnknown, duePartitions{}, err
	}
	if results[0].Gone {
		w.Store.Forget(req, target)
		return probeUnknown, duePartitions{}, nil
	}
	var next readiness.NextDue
	var due duePartitions
	paused, windowOpen := false, false
	for _, c := range results[0].Candidates {
		switch {
		case c.Paused:
			paused = true
		case c.In > 0:
			next.Add(c.In)
		case c.WindowOpen:
			windowOpen = true
		case c.Depth > 0:
			due.filled = append(due.filled, c.Partition)
		default:
			due.drained = append(due.drained, c.Partition)
		}
	}
	var result probeResult
	switch {
	case paused:
		w.Readiness.SetPaused(target, observation)
		return probeEmpty, due, nil
	case len(due.filled) > 0 && results[0].Limited:
		w.Readiness.SetLimited(target, observation, results[0].LimitedIn)
		return probeEmpty, due, nil
	case len(due.filled) > 0:
		result = probeReady
	case len(due.drained) > 0, windowOpen: // nothing announces the end of the window
		result = probeUnknown
	default:
		w.Readiness.SetEmpty(target, observation, next)
		return probeEmpty, due, nil
	}
	w.Readiness.SetUnknown(target, next)
	return result, due, nil
}
