package claim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlPostpone = sql.Query("store/postpone")

const (
	// unreadableRetry is when a partition is claimed again that holds a row which Postgres cannot read.
	unreadableRetry = time.Minute
	// maxSeparateClaims is how many due partitions of a group a pop claims one by one.
	maxSeparateClaims = 32
	// separateLimit bounds the query that finds these partitions.
	separateLimit = 2 * time.Second
)

// unreadable reports whether Postgres could not read a row: it is corrupt (class XX), its value is
// invalid (class 22), or the value exceeds a limit of Postgres (class 54). A claim sends no value of a
// client, so the reason is always a row.
func unreadable(err error) bool {
	state := postgres.SQLState(err)
	return strings.HasPrefix(state, "XX") || strings.HasPrefix(state, "22") || strings.HasPrefix(state, "54")
}

// postpone makes the partition of a claim that failed due later, so that pops of its group deliver the
// other partitions. A failure is logged: the next claim fails and postpones again.
func (c *Claimer) postpone(ctx context.Context, one *call, reason error) {
	c.Metrics.unreadable.Inc()
	fields := []zap.Field{
		zap.String("queue", one.req.Queue), zap.String("group", one.req.Group), zap.Int64("partition", one.target.Partition),
		zap.Duration("retry_in", unreadableRetry),
	}
	c.Log.Error("Postgres cannot read a message. The group does not receive its partition until the retry.", append(fields, zap.Error(reason))...)
	err := c.undo(ctx, sqlPostpone, one.target.Group, one.target.Partition, int64(unreadableRetry/time.Second))
	if err != nil {
		c.Log.Warn("A partition with an unreadable message was not postponed.", append(fields, zap.Error(err))...)
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
		case unreadable(err):
		case err != nil:
			return nil, err
		case len(one.delivery.Messages) > 0:
			return one, nil
		}
	}
	return nil, reason
}
