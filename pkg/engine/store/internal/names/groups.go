package names

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlDatabaseNow = sql.Query("engine/store/database_now")
	sqlFindGroup   = sql.Query("engine/store/find_group")
	sqlJoinGroup   = sql.Query("engine/store/join_group")
	sqlMatchQueues = sql.Query("engine/store/match_queues")
)

// Found is the target of a pop.
type Found struct {
	queue.Target
	// Joining is set if the group still lacks cursors in some partitions. GoOn creates the missing
	// cursors.
	Joining bool
	// queueKey is the queue of the group. It is 0 if the group comes from the cache.
	queueKey int64
}

// Group returns the target of a pop, and registers the consumer group at its first pop, even if the
// queue is empty. ok is false if the queue or the requested partition does not exist. The
// registration waits for the first page of the join.
func (d *Directory) Group(ctx context.Context, req *queue.PopRequest) (found Found, ok bool, err error) {
	found, registered, ok, err := d.FindGroup(ctx, req)
	if err != nil || !ok || registered {
		return found, ok, err
	}
	if ok, err = d.register(ctx, req, &found); err != nil || !ok {
		return Found{}, false, err
	}
	if found.Joining {
		done, err := d.GoOn(ctx, found.Target, JoinPatience)
		if err != nil {
			return Found{}, false, err
		}
		found.Joining = !done
	}
	d.remember(req, found)
	return found, true, nil
}

// register registers the group of req. In each queue, one request of this instance registers at a
// time.
func (d *Directory) register(ctx context.Context, req *queue.PopRequest, found *Found) (ok bool, err error) {
	unlock, err := d.joins.Lock(ctx, req.Queue)
	if err != nil {
		return false, err
	}
	defer unlock()
	if joined, ok := d.cache.group(groupNameOf(req.Queue, req)); ok {
		*found = Found{Target: joined} // another request registered the group meanwhile
		return true, nil
	}
	return d.join(ctx, req, found)
}

// remember caches a group that has joined. During the join each pop looks the group up again,
// because another instance may run the join. The join may have created ready cursors below the scan
// floors, so remember drops the floors.
func (d *Directory) remember(req *queue.PopRequest, found Found) {
	if !found.Joining {
		d.floors.Forget(found.Group)
		d.resyncIf(d.cache.addGroup(groupNameOf(req.Queue, req), found.Target))
	}
	if found.queueKey != 0 {
		d.rememberQueue(found.queueKey, found.Group)
	}
}

// rememberQueue records the queue of a group, before a request waits for the group.
func (d *Directory) rememberQueue(queueKey, group int64) {
	if d.cache.addGroupOf(queueKey, group) {
		d.bus.Resync("too many consumer groups were looked up, so all are looked up again", events.Peer)
	}
}

// GroupsOf returns the groups of a queue that this instance has looked up in this epoch. Requests of this
// instance wait for no other groups of the queue.
func (d *Directory) GroupsOf(queueKey int64) []int64 { return d.cache.groupsOfQueue(queueKey) }

// QueueOf returns the queue of a partition, if the partition is cached.
func (d *Directory) QueueOf(partition int64) (queueKey int64, ok bool) {
	return d.cache.queueOf(partition)
}

// FindGroup does the work of Group, but registers no group. registered is false if the group does
// not exist.
func (d *Directory) FindGroup(ctx context.Context, req *queue.PopRequest) (found Found, registered, ok bool, err error) {
	if target, ok := d.cache.group(groupNameOf(req.Queue, req)); ok {
		return Found{Target: target}, true, true, nil
	}
	var partition, group pgtype.Int8
	err = d.pool.QueryRow(ctx, sqlFindGroup, req.Queue, req.Group, req.Partition).Scan(&found.queueKey, &partition, &group, &found.Joining, &found.Epoch)
	if postgres.IsNoRows(err) {
		return Found{}, false, false, nil
	}
	if err != nil {
		return Found{}, false, false, fmt.Errorf("looking up group %q of queue %q: %w", req.Group, req.Queue, err)
	}
	if req.Partition != nil && !partition.Valid {
		return Found{}, false, false, nil
	}
	found.Group, found.Partition = group.Int64, partition.Int64
	if group.Valid {
		d.remember(req, found)
	}
	return found, group.Valid, true, nil
}

// ForgetGroup removes the group of req from the cache if its cached target equals deleted, a target
// that does not exist any more.
func (d *Directory) ForgetGroup(req *queue.PopRequest, deleted queue.Target) {
	d.cache.forgetGroup(groupNameOf(req.Queue, req), deleted)
}

// join registers the group of req in its queue.
func (d *Directory) join(ctx context.Context, req *queue.PopRequest, found *Found) (ok bool, err error) {
	mode, from := req.Subscription.Mode, pgtype.Timestamptz{}
	if mode == "" || req.Group == queue.DefaultGroup {
		mode = queue.SubscribeAll
	}
	if mode == queue.SubscribeFrom {
		from = pgtype.Timestamptz{Time: req.Subscription.From, Valid: true}
	}
	var came, refreshed pgtype.Timestamptz
	if mode == queue.SubscribeNew {
		if came, refreshed, err = d.instantsOf(ctx, req); err != nil {
			return false, err
		}
	}
	var joining bool
	var unready []int64
	err = d.pool.QueryRow(ctx, sqlJoinGroup, req.Queue, req.Group, req.Partition, string(mode), from, came, refreshed).
		Scan(&found.queueKey, &found.Group, &joining, &unready)
	if postgres.IsNoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("registering group %q on queue %q: %w", req.Group, req.Queue, err)
	}
	found.Joining = joining && req.Partition == nil
	partition := ""
	if req.Partition != nil {
		partition = *req.Partition
	}
	d.bus.GroupCreated(req.Queue, partition, req.Group)
	d.waker.Wake(ctx, unready)
	return true, nil
}

// instantsOf returns two times by the clock of the database: when req began to wait, and when req found
// its group deleted. Both are now for a request that does not wait. The times may be too early by one
// network round trip, but never too late. So a waiting pop does not miss the first message of a queue
// that is created while it waits.
func (d *Directory) instantsOf(ctx context.Context, req *queue.PopRequest) (came, refreshed pgtype.Timestamptz, err error) {
	var now time.Time
	if err := d.pool.QueryRow(ctx, sqlDatabaseNow).Scan(&now); err != nil {
		return came, refreshed, fmt.Errorf("reading the clock of the database: %w", err)
	}
	here := time.Now() // after the answer, so that the wait for a connection does not count
	since := func(at time.Time) pgtype.Timestamptz {
		return pgtype.Timestamptz{Time: now.Add(at.Sub(here)), Valid: true}
	}
	came = since(here)
	if !req.WaitingSince.IsZero() {
		came = since(req.WaitingSince)
	}
	refreshed = came
	if !req.RefreshSince.IsZero() {
		refreshed = since(req.RefreshSince)
	}
	return came, refreshed, nil
}

// Match is a queue whose tags match a pop.
type Match struct {
	Queue string
	// Joined is false if the group does not exist in this queue. Then Group is 0.
	Joined bool
	Group  int64
	// Joining is set if the group still lacks cursors in some partitions of the queue.
	Joining bool
	// HasNext is set if a cursor of the queue is due or becomes due. NextIn is the time until then.
	HasNext bool
	NextIn  time.Duration
}

// Matches returns the queues that match the tags of req. Queues with a due cursor come first, by
// priority, then by the time since which the cursor is due. Matches first registers the group of
// req in all these queues, because a pop by tags registers its group in each matching queue.
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
		single := *req
		single.Queue, single.Tags = m.Queue, nil
		// The query did not find the group, so a cached group was deleted.
		name := groupNameOf(single.Queue, &single)
		if known, ok := d.cache.group(name); ok {
			d.cache.forgetGroup(name, known)
		}
		if _, _, err := d.Group(ctx, &single); err != nil {
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
	rows, _ := d.pool.Query(ctx, sqlMatchQueues, req.Tags.Namespace, req.Tags.Task, req.Group, postgres.LikePatterns(req.Tags.Allowed.List())) // rows hold the error
	matches, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Match, error) {
		var m Match
		var queueKey int64
		var group pgtype.Int8
		var joining pgtype.Bool
		var seconds pgtype.Float8
		err := row.Scan(&m.Queue, &queueKey, &group, &joining, &seconds)
		m.HasNext, m.NextIn = seconds.Valid, wake.Seconds(seconds.Float64)
		m.Group, m.Joined, m.Joining = group.Int64, group.Valid, joining.Bool
		if m.Joined {
			d.rememberQueue(queueKey, m.Group)
		}
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("matching queues of namespace %q and task %q: %w", req.Tags.Namespace, req.Tags.Task, err)
	}
	return matches, nil
}
