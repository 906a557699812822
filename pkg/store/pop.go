package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// rivalPatience is how long a pop waits for a rival. Whoever holds a cursor for
	// longer is a consumer in SQL: what it holds is not poppable, as if it were
	// leased.
	rivalPatience = time.Second
	// heldLook is when to look again then: that it commits is heard, that it rolls
	// back is not.
	heldLook = time.Second
	// passedEvery is how often it is logged that pops by tags pass over a queue.
	passedEvery = time.Minute
)

// Pop looks once and returns what it claimed, or a Delivery without messages
// when nothing was poppable (I8). A queue or partition that does not exist is
// empty, not an error; Delivery.Target says what was looked at. req.Wait is not its
// business.
//
// Errors: CodeUnavailable; a lease that was taken all the same is given back by Run, or
// expires.
func (s *Store) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	var delivery queue.Delivery
	var err error
	if req.Tags != nil {
		delivery, err = s.popTagged(ctx, req)
	} else {
		delivery, err = s.pop(ctx, req)
	}
	return delivery, wrapBatched(err)
}

// popTagged pops from the matching queue with something due that has the highest
// priority; of several, from the one that has been due the longest. A queue whose
// payloads cannot be opened is passed over; its error is the answer where no other
// has anything.
func (s *Store) popTagged(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	matches, err := s.joined(ctx, req)
	if err != nil {
		return queue.Delivery{}, err
	}
	empty := queue.Delivery{Group: req.Group, Watched: make([]int64, 0, len(matches))}
	var sealed error
	for _, m := range matches {
		if !m.joined {
			continue // born a moment ago, and announced: who waits looks again
		}
		empty.Watched = append(empty.Watched, m.group)
		if !m.inSight || m.in > 0 {
			if m.inSight {
				empty.NoteDueIn(m.in)
			}
			continue
		}
		one := *req
		one.Queue, one.Tags = m.queue, nil
		delivery, err := s.pop(ctx, &one)
		switch {
		case errors.As(err, new(sealedError)):
			if sealed == nil {
				sealed = err
			}
			continue
		case err != nil:
			return delivery, err
		case len(delivery.Messages) > 0:
			s.passedOver(sealed)
			return delivery, nil
		}
		if delivery.HasNext {
			empty.NoteDueIn(delivery.NextIn)
		}
	}
	return empty, sealed
}

// sealedError says that the payloads of a queue cannot be opened here.
type sealedError struct{ error }

func (e sealedError) Unwrap() error { return e.error }

// passedOver logs now and then that pops pass over a queue; how often they do, a
// metric tells.
func (s *Store) passedOver(sealed error) {
	now, last := time.Now(), s.passed.Load()
	if sealed != nil && now.Sub(time.Unix(last, 0)) >= passedEvery && s.passed.CompareAndSwap(last, now.Unix()) {
		s.log.Warn("pops by tags pass over a queue", zap.Error(sealed))
	}
}

func (s *Store) pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	empty := queue.Delivery{Queue: req.Queue, Group: req.Group}
	held := false
	for {
		target, ok, err := s.group(ctx, req)
		if err != nil || !ok {
			return empty, err
		}
		claim, err := s.claimOne(ctx, req, target)
		if err != nil {
			return empty, fmt.Errorf("claiming from queue %q for group %q: %w", req.Queue, req.Group, err)
		}
		claim.delivery.Target = target
		switch {
		case len(claim.delivery.Messages) > 0:
			return claim.delivery, nil
		case claim.delivery.Gone:
			// Deleted since it was remembered; perhaps made anew.
			s.names.forgetGroup(nameOf(req.Queue, req), target)
			again := *req
			again.RefreshSince = time.Now()
			req = &again
		case claim.settled:
			// Something due was not poppable after all; something else may be.
		case claim.wasDue:
			// A rival holds what is due. Once it is done there may be more.
			if held {
				empty.Target = target
				empty.NoteDueIn(heldLook)
				return empty, nil
			}
			_, err := s.pool.Exec(ctx, sqlClaimWait, target.Group, partitionArg(target), s.floors.lowest(target.Group),
				rivalPatience.Milliseconds())
			if held = postgres.SQLState(err) == postgres.LockTimeout; err != nil && !held {
				return empty, fmt.Errorf("waiting for a rival pop of queue %q: %w", req.Queue, err)
			}
		default:
			return claim.delivery, nil
		}
	}
}

// Resolve returns the ids a pop claims from, and registers its consumer group
// if need be. ok is false when the queue, or the partition asked for, does not
// exist. It costs a query only the first time. Errors: CodeUnavailable.
func (s *Store) Resolve(ctx context.Context, req *queue.PopRequest) (target queue.Target, ok bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	target, ok, err = s.group(ctx, req)
	return target, ok, postgres.Wrap(err)
}

// Forget drops what Resolve remembers of a pop, if that is what turned out to be gone.
func (s *Store) Forget(req *queue.PopRequest, gone queue.Target) {
	s.names.forgetGroup(nameOf(req.Queue, req), gone)
}

// namePartitions fills in the partitions of the messages; by holds their ids, in life.
func (s *Store) namePartitions(ctx context.Context, d *queue.Delivery, life queue.Epoch, by []int64) error {
	if len(by) == 0 {
		return nil
	}
	distinct := make([]int64, 0, d.Partitions)
	for i, key := range by {
		if i == 0 || key != by[i-1] {
			distinct = append(distinct, key)
		}
	}
	named, err := s.byKeys(ctx, life, distinct)
	if err != nil {
		return err
	}
	kept := d.Messages[:0]
	for i := range d.Messages {
		// A partition without a name was deleted while it was being claimed.
		if p := named[by[i]]; p != nil {
			d.Messages[i].Partition = p
			kept = append(kept, d.Messages[i])
		}
	}
	d.Messages = kept
	return nil
}

// settle looks again, under the lock and with a newer snapshot, at a cursor
// that was due although no message was in sight. Either a push committed since,
// and the next claim sees it; or only holes and dead letters are left, and the
// cursor moves past them.
func (s *Store) settle(ctx context.Context, partition, group int64) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(sqlSettleLock, partition, group)
	b.Queue(sqlSettle, partition, group)
	b.Queue("COMMIT")
	b.Queue(sqlWake, []int64{partition})
	var ready []queue.Ready
	err := s.batch(ctx, b, func(results pgx.BatchResults) error {
		for _, step := range []string{"beginning", "locking", "moving", "committing"} {
			if err := skip(results, fmt.Sprintf("settling the cursor of group %d in partition %d: %s", group, partition, step)); err != nil {
				return err
			}
		}
		ready = s.readWake(results, 1)
		return nil
	})
	s.announce(ready)
	return err
}
