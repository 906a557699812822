package catalog

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlUnblock = sql.Query("engine/catalog/unblock")
	sqlBlocked = sql.Query("engine/catalog/blocked")
)

// Place names a partition of a queue for a consumer group.
type Place struct{ Queue, Partition, Group string }

// UnblockAction is what an operator decides about the first message of a blocked partition.
type UnblockAction string

const (
	// UnblockRetry delivers the message at once. Its failures and deliveries count from 0.
	UnblockRetry UnblockAction = "retry"
	// UnblockDeadLetter makes the message a dead letter with its last error.
	UnblockDeadLetter UnblockAction = "deadLetter"
	// UnblockSkip counts the message as done.
	UnblockSkip UnblockAction = "skip"
)

// Unblocked is the message of a partition that is no longer blocked. Both fields are zero if the message was deleted.
type Unblocked struct {
	MessageID     queue.ID
	TransactionID string
}

// Unblock decides about the message at which a partition is blocked for a group, and lets the partition go on. Waiting
// requests probe again. Errors: CodeNotFound, CodeConflict (the partition is not blocked), CodeUnavailable.
func (c *Catalog) Unblock(ctx context.Context, place Place, action UnblockAction) (done Unblocked, err error) {
	var found, unblocked bool
	var partition zeronull.Int8
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		into := []any{&found, &unblocked, &partition, (*zeronull.UUID)(&done.MessageID), (*zeronull.Text)(&done.TransactionID)}
		err := tx.QueryRow(ctx, sqlUnblock, place.Queue, place.Partition, place.Group, string(action)).Scan(into...)
		switch {
		case err != nil:
			return err
		case !found:
			return &queue.Error{Code: queue.CodeNotFound, Message: "Queue, partition or consumer group not found"}
		case !unblocked:
			return &queue.Error{Code: queue.CodeConflict, Message: "the partition is not blocked for the consumer group"}
		}
		return audit.Write(ctx, tx, audit.Counts{"changed": 1})
	})
	if code := queue.CodeOf(err); code == queue.CodeNotFound || code == queue.CodeConflict {
		return done, err
	}
	if err == nil {
		err = c.wake(ctx, []int64{int64(partition)})
	}
	c.events.Resync("a partition was unblocked", events.Here)
	return done, postgres.Wrapf(err, "unblocking %+v", place)
}

// Blocked is a partition that is blocked for a group.
type Blocked struct {
	// Key is the database id of the partition. A page begins after the Key of the page before.
	Key         int64
	Partition   string
	PartitionID queue.ID
	// The first unfinished message. The fields are zero if it was deleted.
	MessageID     queue.ID
	TransactionID string
	CreatedAt     time.Time
	// Failures and Deliveries count the failed acks and the deliveries of the message. Waiting counts the unfinished messages.
	Failures, Deliveries, Waiting int64
	// Error is the error of the last failed attempt, and Since is its instant. They are zero if the attempt was deleted.
	Error string
	Since time.Time
}

// Blocked lists up to limit partitions that are blocked for a group, after a key. Errors: CodeNotFound, CodeUnavailable.
func (c *Catalog) Blocked(ctx context.Context, queueName, group string, after, limit int64) ([]Blocked, error) {
	exists := false
	found, err := postgres.Collect(ctx, c.pool, sqlBlocked, func(row pgx.CollectableRow) (b Blocked, err error) {
		exists = true
		var failures, attempts, waiting pgtype.Int8
		err = row.Scan((*zeronull.Int8)(&b.Key), (*zeronull.Text)(&b.Partition), (*zeronull.UUID)(&b.PartitionID), (*zeronull.UUID)(&b.MessageID),
			(*zeronull.Text)(&b.TransactionID), (*zeronull.Timestamptz)(&b.CreatedAt), &failures, &attempts, &waiting,
			(*zeronull.Text)(&b.Error), (*zeronull.Timestamptz)(&b.Since))
		b.Failures, b.Deliveries, b.Waiting = failures.Int64, attempts.Int64, waiting.Int64
		return b, err
	}, queueName, group, after, limit)
	if err == nil && !exists {
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: "Queue or consumer group not found"}
	}
	if len(found) == 1 && found[0].Key == 0 {
		found = nil
	}
	return found, postgres.Wrapf(err, "listing the blocked partitions of group %q in queue %q", group, queueName)
}
