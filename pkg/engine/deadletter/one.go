package deadletter

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Retry redrives the dead letters of one message for one group, or for every group if group is nil.
// It returns the number of redriven dead letters. Errors: CodeNotFound if the message does not
// exist or none of its dead letters can be redriven; CodeUnavailable.
func (l *Letters) Retry(ctx context.Context, partition queue.ID, transactionID string, group *string) (int64, error) {
	n, err := l.takeOne(ctx, partition, transactionID, group, redrive)
	return n, postgres.Wrapf(err, "redriving message %q of partition %s", transactionID, partition)
}

// Discard deletes the dead letters of one message for one group, or for every group if group is nil. The message stays in the
// log, consumed by the group. It returns the number of deleted dead letters. Errors: as for Retry.
func (l *Letters) Discard(ctx context.Context, partition queue.ID, transactionID string, group *string) (int64, error) {
	n, err := l.takeOne(ctx, partition, transactionID, group, purge)
	return n, postgres.Wrapf(err, "deleting the dead letter of message %q of partition %s", transactionID, partition)
}

// takeOne passes the dead letters of one message to take.
func (l *Letters) takeOne(ctx context.Context, partition queue.ID, transactionID string, group *string, take takeFunc) (n int64, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	m, err := l.find(ctx, partition, transactionID)
	if err != nil {
		return 0, err
	}
	audit.Locate(ctx, m.Queue, m.Partition)
	var found batch
	var id int64
	rows, _ := l.pool.Query(ctx, sqlOfMessage, [16]byte(partition), transactionID, group)
	_, err = pgx.ForEachRow(rows, []any{&id, &found.epoch}, func() error { // also returns the error of Query
		found.ids = append(found.ids, id)
		return nil
	})
	if err == nil && len(found.ids) > 0 {
		n, err = l.take(ctx, found, take)
		if err == nil && n == 0 {
			err = l.pool.CheckEpoch(ctx, found.epoch)
		}
	}
	if err == nil && n == 0 {
		return 0, &queue.Error{Code: queue.CodeNotFound, Message: "the message is not in the dead letter queue of " + groupText(group)}
	}
	return n, err
}
