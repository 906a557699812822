package catalog

import (
	"context"
	"fmt"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlOpenPartitions = sql.Query("store/open_partitions")
	sqlQueueConfigure = sql.Query("catalog/queue_configure")
)

// Settings are the values that Configure stores.
type Settings struct {
	Queue     string
	Namespace string
	Task      string
	Options   queue.Options
	// Extensions with a zero value are off.
	Extensions queue.Extensions
}

// Configured names the queue that Configure created or found.
type Configured struct {
	// QueueID and PartitionID (of the partition "Default") are wire ids.
	QueueID     queue.ID
	PartitionID queue.ID
}

// Configure creates the queue with its partition "Default" if it does not exist, and replaces its
// tags and all its options. It waits for transactions that hold a cursor of the queue. Errors:
// CodeInvalid; CodeUnavailable. After CodeUnavailable the options may be replaced without effect on
// messages that already wait: send the same request to the same instance again.
func (c *Catalog) Configure(ctx context.Context, set Settings) (Configured, error) {
	out, err := c.configure(ctx, set)
	if err != nil {
		c.events.Resync("the outcome of configuring a queue is unknown", events.Here)
		return Configured{}, postgres.Wrap(fmt.Errorf("configuring queue %q: %w", set.Queue, err))
	}
	return out, nil
}

func (c *Catalog) configure(ctx context.Context, set Settings) (Configured, error) {
	for {
		stored, err := c.store(ctx, &set)
		if postgres.IsNoRows(err) && ctx.Err() == nil {
			continue // the queue was deleted between the two statements of store
		}
		if err != nil {
			return stored.Configured, err
		}
		if stored.queueCreated || stored.retagged {
			c.events.Created(set.Queue, "", events.Here)
		} else if stored.partitionCreated {
			c.events.Created(set.Queue, queue.DefaultPartition, events.Here)
		}
		if !stored.recompute && !c.isRecomputePending(stored.id) {
			return stored.Configured, nil
		}
		err = c.recompute(ctx, stored.id)
		c.setRecomputePending(stored.id, err != nil)
		c.events.Resync("a delay or a window was changed", events.Here)
		return stored.Configured, err
	}
}

// storedQueue is the result of store.
type storedQueue struct {
	Configured
	id                                       int64
	queueCreated, partitionCreated, retagged bool
	// recompute is set if an option changed that ready_at of the cursors depends on.
	recompute bool
}

// store opens the queue and writes its options. It returns pgx.ErrNoRows if the queue is deleted in
// between.
func (c *Catalog) store(ctx context.Context, set *Settings) (out storedQueue, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	o, x := set.Options, set.Extensions
	err = c.pool.QueryRow(ctx, sqlOpenPartitions, []string{set.Queue}, []string{queue.DefaultPartition}, o.LeaseTime, o.RetryLimit).
		Scan(nil, nil, nil, nil, (*[16]byte)(&out.PartitionID), nil, nil, &out.partitionCreated, &out.queueCreated, nil)
	if err != nil {
		return out, err
	}
	err = c.pool.QueryRow(ctx, sqlQueueConfigure, set.Queue, set.Namespace, set.Task,
		o.LeaseTime, o.RetryLimit, o.DelayedProcessing, o.WindowBuffer, o.EncryptionEnabled, o.RetentionEnabled,
		o.RetentionSeconds, o.CompletedRetentionSeconds, o.MaxWaitTimeSeconds, o.MaxSize, o.Priority,
		o.RetryDelay, o.TTL, o.DeadLetterQueue, o.DLQAfterMaxRetries,
		x.RetryBackoff, x.ExpireAfterSeconds, x.DeadLetterExpired, x.MaxDeliveries).
		Scan(&out.id, (*[16]byte)(&out.QueueID), &out.retagged, &out.recompute)
	return out, err
}
