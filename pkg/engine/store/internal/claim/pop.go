package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlClaimWait = sql.Query("engine/store/claim_wait")

const (
	// rivalPatience bounds the time that a pop waits for a rival, a session that holds a due
	// cursor. Only a SQL consumer holds a cursor for longer. A pop treats such a cursor as leased.
	rivalPatience = time.Second
	// contendedRetry is the time until the next probe after rivalPatience. The commit of a SQL consumer
	// notifies every instance, but its rollback notifies no instance.
	contendedRetry = time.Second
	// passedOverInterval is the minimum time between two log lines about queues that pops by tags
	// skip.
	passedOverInterval = time.Minute
)

// Pop claims messages once, without waiting for new messages; see Store.Pop.
func (c *Claimer) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	ctx, cancel := c.Pool.Bounded(ctx)
	defer cancel()
	pop := c.pop
	if req.Tags != nil {
		pop = c.popTagged
	}
	delivery, err := pop(ctx, req)
	return delivery, groupcommit.Wrap(err)
}

// popTagged pops from the first matching queue with a due partition, in the order of Matches. It skips a queue
// if a payload cannot be decrypted. If no other queue has messages, it returns the error of the first skipped
// queue.
func (c *Claimer) popTagged(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	matches, err := c.Names.Matches(ctx, req)
	if err != nil {
		return queue.Delivery{}, err
	}
	empty := queue.Delivery{Group: req.Group, Watched: make([]int64, 0, len(matches))}
	var undecrypted, joining error
	for _, m := range matches {
		if !m.Joined {
			continue // the queue was created after the join; its announcement makes waiting requests probe
		}
		empty.Watched = append(empty.Watched, m.Group)
		if goOn := m.Joining && joining == nil; !goOn && (!m.HasNext || m.NextIn > 0) {
			if m.HasNext {
				empty.NoteDueIn(m.NextIn)
			}
			continue
		}
		single := *req
		single.Queue, single.Tags = m.Queue, nil
		delivery, err := c.pop(ctx, &single)
		switch {
		case errors.Is(err, queue.ErrJoining):
			joining = err
			continue
		case errors.As(err, new(decryptError)):
			if undecrypted == nil {
				undecrypted = err
			}
			continue
		case err != nil:
			return delivery, err
		case len(delivery.Messages) > 0:
			c.logPassedOver(undecrypted)
			return delivery, nil
		}
		if delivery.HasNext {
			empty.NoteDueIn(delivery.NextIn)
		}
		if delivery.Limited {
			empty.NoteDueIn(delivery.LimitedIn)
		}
	}
	return empty, cmp.Or(joining, undecrypted)
}

// logPassedOver logs that a pop by tags skipped a queue because of reason, at most once in
// passedOverInterval. A metric counts each case.
func (c *Claimer) logPassedOver(reason error) {
	now, last := time.Now(), c.passedOverLogged.Load()
	if reason != nil && now.Sub(time.Unix(last, 0)) >= passedOverInterval && c.passedOverLogged.CompareAndSwap(last, now.Unix()) {
		c.Log.Warn("a pop by tags skipped a queue", zap.Error(reason))
	}
}

// popOnce claims until a claim has messages, no cursor is due, or a payload cannot be decrypted.
func (c *Claimer) popOnce(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	empty := queue.Delivery{Queue: req.Queue, Group: req.Group}
	contended := false
	patience := joinPatience(req)
	for {
		found, ok, err := c.Names.Group(ctx, req)
		if err != nil || !ok {
			return empty, err
		}
		target := found.Target
		call, err := c.claim(ctx, req, target)
		if err != nil {
			return empty, fmt.Errorf("claiming from queue %q for group %q: %w", req.Queue, req.Group, err)
		}
		call.delivery.Target = target
		switch {
		case len(call.delivery.Messages) > 0:
			return call.delivery, nil
		case call.delivery.Gone:
			// The group was deleted. It may exist again with another id.
			c.Names.ForgetGroup(req, target)
			again := *req
			again.RefreshSince = time.Now()
			req = &again
		case call.settled:
			// The due cursor had no message to deliver. Another due cursor may have one.
		case found.Joining && (contended || !call.wasDue):
			if err := c.goOn(ctx, req, target, patience); err != nil {
				return empty, err
			}
		case call.wasDue:
			if contended {
				empty.Target = target
				empty.NoteDueIn(contendedRetry)
				return empty, nil
			}
			if contended, err = c.waitForRival(ctx, target); err != nil {
				return empty, fmt.Errorf("waiting for a rival pop of queue %q: %w", req.Queue, err)
			}
		default:
			return call.delivery, nil
		}
	}
}

// joinPatience returns the time until which a pop without messages waits for the join of its group.
func joinPatience(req *queue.PopRequest) time.Time {
	now := time.Now()
	until := now.Add(names.JoinPatience)
	if end := req.WaitingSince.Add(req.Wait); req.Wait > 0 && !req.WaitingSince.IsZero() && end.Before(until) {
		until = end
	}
	return until
}

// goOn waits for the next page of the join of a group. After the deadline it returns queue.ErrJoining. A
// pop must not answer empty before the join ends (I8).
func (c *Claimer) goOn(ctx context.Context, req *queue.PopRequest, target queue.Target, deadline time.Time) error {
	left := time.Until(deadline)
	if left <= 0 {
		return queue.Joining(req.Queue, req.Group)
	}
	_, err := c.Names.GoOn(ctx, target, left)
	return err
}

// waitForRival waits until a rival that holds a due cursor of target has released it. gaveUp is
// true if this takes longer than rivalPatience.
func (c *Claimer) waitForRival(ctx context.Context, target queue.Target) (gaveUp bool, err error) {
	_, err = c.Pool.Exec(ctx, sqlClaimWait, target.Group, partitionArg(target), c.Floors.Lowest(target.Group), rivalPatience.Milliseconds())
	if postgres.SQLState(err) == postgres.LockTimeout {
		return true, nil
	}
	return false, err
}
