package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlOpenPartitions = sql.Query("engine/store/open_partitions")
	sqlQueueConfigure = sql.Query("engine/catalog/queue_configure")
	sqlQueueSettings  = sql.Query("engine/catalog/queue_settings")
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

// columns returns pointers to the tags and all options, in the order of queue_settings.sql and
// queue_configure.sql.
func (set *Settings) columns() []any {
	o, x := &set.Options, &set.Extensions
	return []any{
		&set.Namespace, &set.Task,
		&o.LeaseTime, &o.RetryLimit, &o.DelayedProcessing, &o.WindowBuffer, &o.EncryptionEnabled, &o.RetentionEnabled,
		&o.RetentionSeconds, &o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds, &o.MaxSize, &o.Priority,
		&o.RetryDelay, &o.TTL, &o.DeadLetterQueue, &o.DLQAfterMaxRetries,
		&x.RetryBackoff, &x.RetryDelayMax, &x.ExpireAfterSeconds, &x.DeadLetterExpired, &x.MaxDeliveries, &x.TenantDelimiter,
	}
}

// settingNames are the names of columns in the API.
var settingNames = []string{
	"namespace", "task",
	"leaseTime", "retryLimit", "delayedProcessing", "windowBuffer", "encryptionEnabled", "retentionEnabled",
	"retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds", "maxSize", "priority",
	"retryDelay", "ttl", "deadLetterQueue", "dlqAfterMaxRetries",
	"retryBackoff", "retryDelayMax", "expireAfterSeconds", "deadLetterExpired", "maxDeliveries", "tenantDelimiter",
}

// Configured names the queue that Configure created or found.
type Configured struct {
	// QueueID and PartitionID (of the partition "Default") are wire ids.
	QueueID     queue.ID
	PartitionID queue.ID
	// Warning is set if the queue has encryptionEnabled and this server cannot encrypt.
	Warning string
}

// The warnings of Configure with encryptionEnabled on a server without encryption.key.
const (
	warningRefused   = "options.encryptionEnabled is true and encryption.key is not set: this server refuses pushes to the queue"
	warningPlaintext = "options.encryptionEnabled has no effect: encryption.key is not set, and encryption.allow_plaintext stores payloads unencrypted"
)

// Configure creates the queue with its partition "Default" if it does not exist, and replaces its
// tags and all its options. It waits for transactions that hold a cursor of the queue. Errors:
// CodeInvalid; CodeUnavailable. After CodeUnavailable, the new options may be stored but not yet
// applied to waiting messages. Then send the same request to the same instance again.
func (c *Catalog) Configure(ctx context.Context, set Settings) (Configured, error) {
	out, err := c.configure(ctx, set)
	if err != nil {
		c.events.Resync("the outcome of configuring a queue is unknown", events.Here)
	}
	out.Warning = c.warning(&set)
	return out, postgres.Wrapf(err, "configuring queue %q", set.Queue)
}

// Change changes some tags and options of a queue. change gets the current settings and changes them. Change locks the
// row of the queue meanwhile, so simultaneous calls lose no change. It returns the settings after the change. Configured
// has no PartitionID. Change waits for transactions that hold a cursor of the queue. Errors: CodeNotFound;
// CodeUnavailable, which has the same consequence as for Configure.
func (c *Catalog) Change(ctx context.Context, queueName string, change func(set *Settings)) (Settings, Configured, error) {
	return c.change(ctx, queueName, func(set *Settings) error {
		change(set)
		return nil
	}, func(context.Context, pgx.Tx, *storedQueue) error { return nil })
}

// change is Change. If edit or after returns an error, nothing changes. It calls after at the end of the transaction. An error
// of change with CodeConflict is the error of edit or after.
func (c *Catalog) change(
	ctx context.Context, queueName string, edit func(set *Settings) error, after func(context.Context, pgx.Tx, *storedQueue) error,
) (Settings, Configured, error) {
	set, stored := Settings{Queue: queueName}, storedQueue{}
	bounded, cancel := c.pool.Bounded(ctx)
	err := pgx.BeginFunc(bounded, c.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(bounded, sqlQueueSettings, queueName).Scan(set.columns()...)
		if postgres.IsNoRows(err) {
			return &queue.Error{Code: queue.CodeNotFound, Message: "Queue not found"}
		}
		if err != nil {
			return err
		}
		before := set
		if err := edit(&set); err != nil {
			return err
		}
		if err := write(bounded, tx, &before, &set, &stored); err != nil {
			return err
		}
		return after(bounded, tx, &stored)
	})
	cancel()
	if code := queue.CodeOf(err); code == queue.CodeNotFound || code == queue.CodeConflict {
		return set, stored.Configured, err
	}
	if err == nil {
		err = c.announce(ctx, queueName, &stored)
	} else {
		c.events.Resync("the outcome of changing a queue is unknown", events.Here)
	}
	stored.Warning = c.warning(&set)
	return set, stored.Configured, postgres.Wrapf(err, "changing queue %q", queueName)
}

// warning returns the Warning of Configured. If it is not empty, warning logs it.
func (c *Catalog) warning(set *Settings) string {
	if !set.Options.EncryptionEnabled || c.sealer.HasKey() {
		return ""
	}
	text := warningRefused
	if c.sealer.AllowsPlaintext() {
		text = warningPlaintext
	}
	c.log.Warn("a queue was configured with encryption, and this server has no encryption.key",
		zap.String("queue", set.Queue), zap.String("warning", text))
	return text
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
		return stored.Configured, c.announce(ctx, set.Queue, &stored)
	}
}

// announce publishes the stored settings, and recomputes ready_at if they affect waiting messages.
func (c *Catalog) announce(ctx context.Context, queueName string, stored *storedQueue) (err error) {
	if stored.queueCreated || stored.retagged {
		c.events.Created(queueName, "", events.Here)
	} else if stored.partitionCreated {
		c.events.Created(queueName, queue.DefaultPartition, events.Here)
	}
	if stored.partitionCreated {
		c.events.PartitionsCreated(queueName, 1)
	}
	if _, pending := c.recomputePending.Load(stored.id); !stored.recompute && !pending {
		return nil
	}
	if err = c.recompute(ctx, stored.id); err != nil {
		c.recomputePending.Store(stored.id, true)
	} else {
		c.recomputePending.Delete(stored.id)
	}
	c.events.Resync("a delay or a window was changed", events.Here)
	return err
}

// storedQueue is the result of store.
type storedQueue struct {
	Configured
	id                                       int64
	queueCreated, partitionCreated, retagged bool
	// recompute is set if a changed option affects ready_at of the cursors.
	recompute bool
}

// store creates the queue if it does not exist, and writes its options in a second transaction. It returns pgx.ErrNoRows if
// the queue is deleted between the two transactions.
func (c *Catalog) store(ctx context.Context, set *Settings) (out storedQueue, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	o, x := set.Options, set.Extensions
	err = c.pool.QueryRow(ctx, sqlOpenPartitions, []string{set.Queue}, []string{queue.DefaultPartition}, o.LeaseTime, o.RetryLimit,
		o.RetryDelay, x.RetryBackoff, x.RetryDelayMax, nil).
		Scan(nil, nil, nil, nil, &out.PartitionID, nil, nil, &out.partitionCreated, &out.queueCreated, nil)
	if err != nil {
		return out, err
	}
	err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		before := *set
		if audit.From(ctx) != nil && !out.queueCreated {
			if err := tx.QueryRow(ctx, sqlQueueSettings, set.Queue).Scan(before.columns()...); err != nil {
				return err
			}
		}
		return write(ctx, tx, &before, set, &out)
	})
	return out, err
}

// write writes all settings of a queue, and the audit row with the settings before.
func write(ctx context.Context, tx pgx.Tx, before, set *Settings, out *storedQueue) error {
	err := tx.QueryRow(ctx, sqlQueueConfigure, append([]any{set.Queue}, set.columns()...)...).
		Scan(&out.id, &out.QueueID, &out.retagged, &out.recompute)
	if err != nil {
		return err
	}
	if err := audit.Write(ctx, tx, audit.Counts{"queues": 1}); err != nil {
		return err
	}
	return recordSettings(ctx, tx, out.id, before, set)
}

var (
	sqlRecomputeReady     = sql.Query("engine/catalog/recompute_ready")
	sqlRecomputeReadyLock = sql.Query("engine/catalog/recompute_ready_lock")
	sqlRecomputeReadyWait = sql.Query("engine/catalog/recompute_ready_wait")
)

// cursorKey names a cursor by its database ids.
type cursorKey struct{ partition, group int64 }

// recompute recomputes ready_at of every cursor of a queue.
//
//  1. The caller has committed the changed options.
//  2. One statement locks the cursors, and the next statement computes ready_at. So the computation
//     sees everything that earlier holders of the locks committed.
//  3. recompute leaves cursors that another transaction has locked until the end, and then handles
//     one cursor per transaction. So it holds no cursor lock while it waits for a cursor lock.
func (c *Catalog) recompute(ctx context.Context, queueID int64) error {
	var lockedByOthers []cursorKey
	for ids, err := range c.pages(ctx, queueID) {
		if err != nil {
			return err
		}
		more, err := c.recomputeCursors(ctx, ids, sqlRecomputeReadyLock, ids)
		if err != nil {
			return err
		}
		lockedByOthers = append(lockedByOthers, more...)
	}
	for _, key := range lockedByOthers {
		if _, err := c.recomputeCursors(ctx, []int64{key.partition}, sqlRecomputeReadyWait, key.partition, key.group); err != nil {
			return err
		}
	}
	return nil
}

// recomputeCursors recomputes the cursors that the statement lock locks, then wakes the partitions.
// It returns the cursors that another transaction has locked.
func (c *Catalog) recomputeCursors(ctx context.Context, partitions []int64, lock string, args ...any) (lockedByOthers []cursorKey, err error) {
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// The result contains a cursor twice if the statement has locked it: with own = false, and
		// with own = true.
		owned := map[cursorKey]bool{}
		var key cursorKey
		var own bool
		rows, _ := tx.Query(ctx, lock, args...)
		_, err := pgx.ForEachRow(rows, []any{&key.partition, &key.group, &own}, func() error { // also returns the error of Query
			owned[key] = owned[key] || own
			return nil
		})
		if err != nil {
			return err
		}
		var partitionIDs, groupIDs []int64
		for key, own := range owned {
			if own {
				partitionIDs, groupIDs = append(partitionIDs, key.partition), append(groupIDs, key.group)
			} else {
				lockedByOthers = append(lockedByOthers, key)
			}
		}
		_, err = tx.Exec(ctx, sqlRecomputeReady, partitionIDs, groupIDs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("recomputing ready_at of cursors: %w", err)
	}
	return lockedByOthers, c.wake(ctx, partitions)
}
