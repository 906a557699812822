package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// page is how many partitions one transaction touches.
const page = 1000

// latenessTimeout bounds a look for late messages: a scrape must not wait long.
const latenessTimeout = time.Second

// Catalog runs the operator's verbs. It is safe for concurrent use.
type Catalog struct {
	pool *postgres.Pool
	log  *zap.Logger
	// purge receives when there is something to purge; one signal stands for
	// many.
	purge  chan struct{}
	events *events.Bus

	mu sync.Mutex
	// unarmed are the queues whose options were changed by a Configure that failed
	// after that: the next one of the same options goes on.
	unarmed map[int64]bool
}

// New returns a Catalog on pool.
func New(pool *postgres.Pool, bus *events.Bus, log *zap.Logger) *Catalog {
	return &Catalog{pool: pool, log: log, purge: make(chan struct{}, 1), events: bus, unarmed: map[int64]bool{}}
}

// Settings are what Configure stores.
type Settings struct {
	Queue     string
	Namespace string
	Task      string
	Options   queue.Options
	// Extensions that are not sent are off.
	Extensions queue.Extensions
}

// Configured names what Configure made or found.
type Configured struct {
	// QueueID and PartitionID (of the partition "Default") are wire ids.
	QueueID     queue.ID
	PartitionID queue.ID
}

// Configure creates the queue if need be, with its partition "Default", and
// replaces its tags and all its options. Errors: CodeInvalid; CodeUnavailable: the
// options may have been replaced, and messages may not have heard of it yet. Send it
// again, to this instance.
func (c *Catalog) Configure(ctx context.Context, set Settings) (Configured, error) {
	out, err := c.configure(ctx, set)
	if err != nil {
		c.events.Resync("the outcome of configuring a queue is unknown", events.Here)
		return Configured{}, postgres.Wrap(fmt.Errorf("configuring queue %q: %w", set.Queue, err))
	}
	return out, nil
}

func (c *Catalog) configure(ctx context.Context, set Settings) (Configured, error) {
	var out Configured
	o, more := set.Options, set.Extensions
	// A queue deleted between the two statements is created again.
	for {
		stepCtx, cancel := c.pool.Bounded(ctx)
		var id int64
		var born, queueBorn, retagged, rearm bool
		err := c.pool.QueryRow(stepCtx, sql.Query("store/open_partitions"), []string{set.Queue}, []string{queue.DefaultPartition},
			o.LeaseTime, o.RetryLimit).Scan(nil, nil, nil, nil, (*[16]byte)(&out.PartitionID), nil, nil, &born, &queueBorn, nil)
		if err == nil {
			err = c.pool.QueryRow(stepCtx, sql.Query("catalog/queue_configure"), set.Queue, set.Namespace, set.Task,
				o.LeaseTime, o.RetryLimit, o.DelayedProcessing, o.WindowBuffer, o.EncryptionEnabled, o.RetentionEnabled,
				o.RetentionSeconds, o.CompletedRetentionSeconds, o.MaxWaitTimeSeconds, o.MaxSize, o.Priority,
				o.RetryDelay, o.TTL, o.DeadLetterQueue, o.DLQAfterMaxRetries,
				more.RetryBackoff, more.ExpireAfterSeconds, more.DeadLetterExpired, more.MaxDeliveries).Scan(&id, (*[16]byte)(&out.QueueID), &retagged, &rearm)
		}
		cancel()
		if postgres.IsNoRows(err) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return out, err
		}
		if queueBorn || retagged {
			c.events.Created(set.Queue, "", events.Here)
		} else if born {
			c.events.Created(set.Queue, queue.DefaultPartition, events.Here)
		}
		if !rearm && !c.isUnarmed(id) {
			return out, nil
		}
		err = c.rearm(ctx, id)
		c.setUnarmed(id, err != nil)
		c.events.Resync("a delay or a window was changed", events.Here)
		return out, err
	}
}

// Delete takes the queue away. When it returns, the name is free and nothing
// can be pushed to, popped from or acknowledged in what was there; partitions are
// closed and rows purged by Run. Errors: CodeUnavailable; what was begun goes on
// at the next start.
func (c *Catalog) Delete(ctx context.Context, name string) (existed bool, err error) {
	stepCtx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = c.pool.QueryRow(stepCtx, sql.Query("catalog/queue_delete"), name).Scan(nil)
	if postgres.IsNoRows(err) {
		return false, nil
	}
	c.requestPurge()
	c.events.Resync("a queue was deleted", events.Here)
	if err != nil {
		return true, postgres.Wrap(fmt.Errorf("deleting queue %q: %w", name, err))
	}
	return true, nil
}

func (c *Catalog) requestPurge() {
	select {
	case c.purge <- struct{}{}:
	default: // one is pending and covers this one
	}
}

// closePartitions makes every partition of a queue unusable, page by page.
func (c *Catalog) closePartitions(ctx context.Context, id int64) error {
	for from := ""; ; {
		closed, upto, err := c.closePage(ctx, id, from)
		if err != nil {
			return err
		}
		switch {
		case closed > 0:
			from = upto
		case from == "":
			return nil
		default:
			from = "" // another process closes the same queue: none may be left behind
		}
	}
}

// closePage closes a page of partitions from a name on.
func (c *Catalog) closePage(ctx context.Context, id int64, from string) (closed int, upto string, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql.Query("catalog/partitions_close"), id, int64(page), from)
		if err != nil {
			return err
		}
		var ids []int64
		var one int64
		if _, err = pgx.ForEachRow(rows, []any{&one, &upto}, func() error {
			ids = append(ids, one)
			return nil
		}); err != nil {
			return err
		}
		closed = len(ids)
		_, err = tx.Exec(ctx, sql.Query("catalog/cursors_delete"), ids)
		return err
	})
	if err != nil {
		return 0, "", fmt.Errorf("closing partitions: %w", err)
	}
	return closed, upto, nil
}

// page runs a query that returns ids.
func (c *Catalog) page(ctx context.Context, query string, args ...any) ([]int64, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	rows, err := c.pool.Query(ctx, sql.Query(query), args...)
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", query, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", query, err)
	}
	return ids, nil
}

// exec runs one statement and returns how many rows it touched.
func (c *Catalog) exec(ctx context.Context, query string, args ...any) (int64, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	tag, err := c.pool.Exec(ctx, sql.Query(query), args...)
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", query, err)
	}
	return tag.RowsAffected(), nil
}
