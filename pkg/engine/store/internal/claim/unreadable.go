package claim

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlPostpone = sql.Query("engine/store/postpone")

const (
	// maxSeparateClaims is how many due partitions of a group a pop claims one by one.
	maxSeparateClaims = 32
	// separateLimit bounds the query that finds these partitions.
	separateLimit = 2 * time.Second
)

// explainUnreadable gives an error of claims its code if Postgres cannot read a row. Without the code,
// class 22 would be an error of the client, and class 58 an error of every claim. A claim sends no value
// of a client. If a disk fails as a whole, each partition is tried once in undeliverableRetry.
func explainUnreadable(err error) error {
	if !postgres.Unreadable(err) {
		return err
	}
	return &queue.Error{Code: queue.CodeUndeliverable, Message: "Postgres cannot read a message", Err: err}
}

// postpone makes the partition of a claim that failed due later, so that pops of its group deliver the
// other partitions. It returns reason with the names of the partition. A failure is logged: the next
// claim fails and postpones again.
func (c *Claimer) postpone(ctx context.Context, one *call, reason error) error {
	c.Metrics.unreadable.Inc()
	group, partition := one.target.Group, one.target.Partition
	name := fmt.Sprint("with the number ", partition)
	if named, err := c.Names.ByKeys(ctx, one.target.Epoch, []int64{partition}); err == nil && named[partition] != nil {
		name = fmt.Sprintf("%q", named[partition].Name)
	}
	fields := []zap.Field{
		zap.String("queue", one.req.Queue), zap.String("group", one.req.Group), zap.Int64("partition", partition),
		zap.String("partition_name", name), zap.Duration("retry_in", undeliverableRetry),
	}
	c.Log.Error("Postgres cannot read a message; the group does not receive its partition until the retry", append(fields, zap.Error(reason))...)
	ready, _, err := wake.ReadReady(c.Pool.Query(ctx, sqlPostpone, group, partition, int64(undeliverableRetry/time.Second)))
	if err != nil {
		c.Log.Warn("a partition with an unreadable message was not postponed", append(fields, zap.Error(err))...)
	}
	c.Waker.Announce(ready)
	return &queue.Error{
		Code: queue.CodeUndeliverable, Err: reason,
		Message: fmt.Sprintf("Postgres cannot read a message of queue %q, partition %s (SQLSTATE %s): restore the row or delete the message",
			one.req.Queue, name, postgres.SQLState(reason)),
	}
}

// separately claims the due partitions of a group one by one, after a claim of several failed with
// reason. It returns the first claim that has messages, and reason if no claim has any. A partition
// that cannot be read is postponed.
func (c *Claimer) separately(ctx context.Context, req *queue.PopRequest, target queue.Target, reason error) (*call, error) {
	found, err := c.Preflight(ctx, []queue.Probe{{Target: target, Want: maxSeparateClaims}}, separateLimit)
	if err != nil {
		return nil, fmt.Errorf("looking for the unreadable partition: %w", err)
	}
	for _, candidate := range found[0].Candidates {
		if candidate.In > 0 {
			continue
		}
		single := target
		single.Partition = candidate.Partition
		one, err := c.together(ctx, req, single)
		switch {
		case postgres.Unreadable(err):
			reason = err // names the partition
		case err != nil:
			return nil, err
		case len(one.delivery.Messages) > 0:
			return one, nil
		}
	}
	return nil, reason
}
