package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// nameOf is the key under which the group of a pop is remembered.
func nameOf(queueName string, req *queue.PopRequest) groupName {
	name := groupName{queue: queueName, group: req.Group, partition: "*"}
	if req.Partition != nil {
		name.partition = "=" + *req.Partition
	}
	return name
}

// group returns the ids a claim needs, and registers the consumer group at its
// first pop, on an empty queue too. ok is false when the queue, or the
// partition asked for, does not exist.
func (s *Store) group(ctx context.Context, req *queue.PopRequest) (keys queue.Target, ok bool, err error) {
	keys, registered, ok, err := s.findGroup(ctx, req)
	if err != nil || !ok || registered {
		return keys, ok, err
	}
	name := nameOf(req.Queue, req)
	leave, err := s.joining.enter(ctx, req.Queue)
	if err != nil {
		return queue.Target{}, false, err
	}
	defer leave()
	if joined, ok := s.names.group(name); ok {
		return joined, true, nil // by whoever was there before
	}
	keys.Group, ok, err = s.join(ctx, req)
	if err != nil || !ok {
		return queue.Target{}, false, err
	}
	s.reborn(s.names.addGroup(name, keys))
	return keys, true, nil
}

// Find returns what a pop would claim from, and registers nothing. ok is false when
// the queue, or the partition asked for, does not exist; registered is false when
// the group is not there yet. What is remembered takes no query.
//
// Errors: CodeInvalid when the database refuses a name, CodeUnavailable.
func (s *Store) Find(ctx context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	target, registered, ok, err = s.findGroup(ctx, req)
	return target, registered, ok, postgres.Wrap(err)
}

func (s *Store) findGroup(ctx context.Context, req *queue.PopRequest) (keys queue.Target, registered, ok bool, err error) {
	name := nameOf(req.Queue, req)
	if keys, ok := s.names.group(name); ok {
		return keys, true, true, nil
	}
	var partition, group pgtype.Int8
	err = s.pool.QueryRow(ctx, sqlFindGroup, req.Queue, req.Group, req.Partition).Scan(nil, &partition, &group, &keys.Epoch)
	if postgres.IsNoRows(err) {
		return queue.Target{}, false, false, nil
	}
	if err != nil {
		return queue.Target{}, false, false, fmt.Errorf("looking up group %q of queue %q: %w", req.Group, req.Queue, err)
	}
	if req.Partition != nil && !partition.Valid {
		return queue.Target{}, false, false, nil
	}
	keys.Group, keys.Partition = group.Int64, partition.Int64
	if group.Valid {
		s.reborn(s.names.addGroup(name, keys))
	}
	return keys, group.Valid, true, nil
}

// join registers the group of req on its queue.
func (s *Store) join(ctx context.Context, req *queue.PopRequest) (group int64, ok bool, err error) {
	mode, from := req.Subscription.Mode, pgtype.Timestamptz{}
	if mode == "" || req.Group == queue.NoGroup {
		mode = queue.SubscribeAll
	}
	if mode == queue.SubscribeFrom {
		from = pgtype.Timestamptz{Time: req.Subscription.From, Valid: true}
	}
	var waited float64
	if !req.WaitingSince.IsZero() {
		waited = time.Since(req.WaitingSince).Seconds()
	}
	anew := waited
	if !req.RefreshSince.IsZero() {
		anew = time.Since(req.RefreshSince).Seconds()
	}
	var made int64
	err = s.pool.QueryRow(ctx, sqlJoinGroup, req.Queue, req.Group, req.Partition, string(mode), from, waited, anew).Scan(nil, &group, &made)
	if postgres.IsNoRows(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("registering group %q on queue %q: %w", req.Group, req.Queue, err)
	}
	if made > 0 {
		err = s.wakeGroup(ctx, group)
	}
	return group, true, err
}

// match is a queue whose tags match a pop.
type match struct {
	queue string
	// group is 0 when the group has not joined this queue.
	group  int64
	joined bool
	// in is, if inSight, how long until something in it is due.
	inSight bool
	in      time.Duration
}

// joined is matches after the group has joined all of them: each is registered at
// the first pop, whichever delivers.
func (s *Store) joined(ctx context.Context, req *queue.PopRequest) ([]match, error) {
	matches, err := s.matches(ctx, req)
	if err != nil {
		return nil, err
	}
	fresh := false
	for _, m := range matches {
		if m.joined {
			continue
		}
		one := *req
		one.Queue, one.Tags = m.queue, nil
		// It may have been deleted since; what is remembered of it is out of date.
		name := nameOf(one.Queue, &one)
		if known, ok := s.names.group(name); ok {
			s.names.forgetGroup(name, known)
		}
		if _, _, err := s.group(ctx, &one); err != nil {
			return nil, err
		}
		fresh = true
	}
	if !fresh {
		return matches, nil
	}
	return s.matches(ctx, req)
}

// matches returns the queues that match the tags of req: those with something
// due first, by priority, then the longest due.
func (s *Store) matches(ctx context.Context, req *queue.PopRequest) ([]match, error) {
	rows, err := s.pool.Query(ctx, sqlMatchQueues, req.Tags.Namespace, req.Tags.Task, req.Group)
	if err != nil {
		return nil, fmt.Errorf("matching queues of namespace %q and task %q: %w", req.Tags.Namespace, req.Tags.Task, err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (match, error) {
		var m match
		var group pgtype.Int8
		var seconds pgtype.Float8
		err := row.Scan(&m.queue, &group, &seconds)
		m.inSight, m.in = seconds.Valid, inSeconds(seconds.Float64)
		m.group, m.joined = group.Int64, group.Valid
		return m, err
	})
}
