package names

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlFindGroup   = sql.Query("store/find_group")
	sqlJoinGroup   = sql.Query("store/join_group")
	sqlMatchQueues = sql.Query("store/match_queues")
)

// Group returns the ids that a pop claims from, and registers the consumer group at its first pop,
// also on an empty queue. ok is false when the queue, or the requested partition, does not exist.
func (d *Directory) Group(ctx context.Context, req *queue.PopRequest) (target queue.Target, ok bool, err error) {
	target, registered, ok, err := d.FindGroup(ctx, req)
	if err != nil || !ok || registered {
		return target, ok, err
	}
	name := groupNameOf(req.Queue, req)
	unlock, err := d.joins.Lock(ctx, req.Queue)
	if err != nil {
		return queue.Target{}, false, err
	}
	defer unlock()
	if joined, ok := d.cache.group(name); ok {
		return joined, true, nil // another request registered the group meanwhile
	}
	target.Group, ok, err = d.join(ctx, req)
	if err != nil || !ok {
		return queue.Target{}, false, err
	}
	d.resyncIf(d.cache.addGroup(name, target))
	return target, true, nil
}

// FindGroup is Group without the registration: registered is false when the group does not exist.
func (d *Directory) FindGroup(ctx context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error) {
	name := groupNameOf(req.Queue, req)
	if target, ok := d.cache.group(name); ok {
		return target, true, true, nil
	}
	var partition, group pgtype.Int8
	err = d.pool.QueryRow(ctx, sqlFindGroup, req.Queue, req.Group, req.Partition).Scan(nil, &partition, &group, &target.Epoch)
	if postgres.IsNoRows(err) {
		return queue.Target{}, false, false, nil
	}
	if err != nil {
		return queue.Target{}, false, false, fmt.Errorf("looking up group %q of queue %q: %w", req.Group, req.Queue, err)
	}
	if req.Partition != nil && !partition.Valid {
		return queue.Target{}, false, false, nil
	}
	target.Group, target.Partition = group.Int64, partition.Int64
	if group.Valid {
		d.resyncIf(d.cache.addGroup(name, target))
	}
	return target, group.Valid, true, nil
}

// ForgetGroup drops the group of req from the cache if it is still remembered as gone.
func (d *Directory) ForgetGroup(req *queue.PopRequest, gone queue.Target) {
	d.cache.forgetGroup(groupNameOf(req.Queue, req), gone)
}

// join registers the group of req on its queue.
func (d *Directory) join(ctx context.Context, req *queue.PopRequest) (group int64, ok bool, err error) {
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
	refreshed := waited
	if !req.RefreshSince.IsZero() {
		refreshed = time.Since(req.RefreshSince).Seconds()
	}
	var cursors int64
	err = d.pool.QueryRow(ctx, sqlJoinGroup, req.Queue, req.Group, req.Partition, string(mode), from, waited, refreshed).Scan(nil, &group, &cursors)
	if postgres.IsNoRows(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("registering group %q on queue %q: %w", req.Group, req.Queue, err)
	}
	if cursors > 0 {
		err = d.waker.WakeGroup(ctx, group)
	}
	return group, true, err
}

// Match is a queue whose tags match a pop.
type Match struct {
	Queue string
	// Joined is false when the group does not exist in this queue; then Group is 0.
	Joined bool
	Group  int64
	// HasNext says that something in the queue is due or will be, in NextIn.
	HasNext bool
	NextIn  time.Duration
}

// Matches returns the queues that match the tags of req: first the queues with something due, by
// priority, then by how long it has been due. The group of req joins all of them first, because a
// group is registered at its first pop, whichever queue delivers.
func (d *Directory) Matches(ctx context.Context, req *queue.PopRequest) ([]Match, error) {
	matches, err := d.match(ctx, req)
	if err != nil {
		return nil, err
	}
	joined := false
	for _, m := range matches {
		if m.Joined {
			continue
		}
		one := *req
		one.Queue, one.Tags = m.Queue, nil
		// A remembered group was deleted since.
		name := groupNameOf(one.Queue, &one)
		if known, ok := d.cache.group(name); ok {
			d.cache.forgetGroup(name, known)
		}
		if _, _, err := d.Group(ctx, &one); err != nil {
			return nil, err
		}
		joined = true
	}
	if !joined {
		return matches, nil
	}
	return d.match(ctx, req)
}

func (d *Directory) match(ctx context.Context, req *queue.PopRequest) ([]Match, error) {
	rows, _ := d.pool.Query(ctx, sqlMatchQueues, req.Tags.Namespace, req.Tags.Task, req.Group) // rows hold the error
	matches, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Match, error) {
		var m Match
		var group pgtype.Int8
		var seconds pgtype.Float8
		err := row.Scan(&m.Queue, &group, &seconds)
		m.HasNext, m.NextIn = seconds.Valid, wake.Seconds(seconds.Float64)
		m.Group, m.Joined = group.Int64, group.Valid
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("matching queues of namespace %q and task %q: %w", req.Tags.Namespace, req.Tags.Task, err)
	}
	return matches, nil
}
