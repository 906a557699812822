package deadletter

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlOfMessage = sql.Query("deadletter/of_message")
	sqlEpoch     = sql.Query("store/epoch")
)

// Retry redrives the dead letters of one message for one group, or for every group if group is nil.
// It returns how many it redrove. Errors: CodeNotFound if the message does not exist or none of its
// dead letters can be redriven; CodeUnavailable.
func (l *Letters) Retry(ctx context.Context, partition queue.ID, transactionID string, group *string) (n int64, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	if _, err := l.find(ctx, partition, transactionID); err != nil {
		return 0, err
	}
	var found batch
	rows, err := l.pool.Query(ctx, sqlOfMessage, [16]byte(partition), transactionID, group)
	if err == nil {
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&id, &found.epoch}, func() error {
			found.ids = append(found.ids, id)
			return nil
		})
	}
	if err == nil && len(found.ids) > 0 {
		n, err = l.redrive(ctx, found)
		if err == nil && n == 0 {
			err = l.checkEpoch(ctx, found.epoch)
		}
	}
	if err != nil {
		return 0, postgres.Wrap(fmt.Errorf("redriving message %q of partition %s: %w", transactionID, partition, err))
	}
	if n == 0 {
		return 0, &queue.Error{Code: queue.CodeNotFound, Message: "the message is not in the dead letter queue of " + groupText(group)}
	}
	return n, nil
}

// checkEpoch returns CodeUnavailable if the database is no longer in the given epoch.
func (l *Letters) checkEpoch(ctx context.Context, epoch int64) error {
	var now int64
	if err := l.pool.QueryRow(ctx, sqlEpoch).Scan(&now); err != nil {
		return err
	}
	if now != epoch {
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter,
			Message: "the database was started again, or restored, meanwhile; send the request again",
		}
	}
	return nil
}

func groupText(group *string) string {
	if group == nil {
		return "any consumer group"
	}
	return fmt.Sprintf("consumer group %q", *group)
}
