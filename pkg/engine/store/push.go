package store

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlQueueDepth = sql.Query("engine/store/queue_depth")

// Push stores items in one transaction, which it may share with other pushes, and returns their
// results in the same order, after the COMMIT. Queues and partitions that do not exist are created.
//
// Errors: CodeInvalid when the database refuses a value. CodeUnavailable when the database cannot be
// reached; then either everything or nothing was stored, and a repetition with the same transaction
// ids is safe. CodeOverloaded: nothing was stored. CodeQueueFull: nothing was stored, because a queue
// has reached its maxSize.
func (s *Store) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	return s.pushes.Push(ctx, items)
}

// Sequence moves rows of the inbox into their partitions, in the given order. ids are the rows and
// items what they hold. One transaction removes the rows and stores the messages, so each row is
// stored once, also when several sequencers try or a connection breaks. It runs on conn and not with
// other pushes, so that it ends with the session of conn.
//
// A row that is refused because its queue is full stays in the inbox. After an error all rows stay.
// Errors are the errors of Push, and the SQLSTATE postgres.InboxRowTaken: a row is not in the inbox any more.
func (s *Store) Sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, error) {
	return s.pushes.Sequence(ctx, conn, push.Inbox{IDs: ids, Items: items})
}

// depthOf returns the function that measures queues with a maxSize, within the request timeout.
func depthOf(pool *postgres.Pool) quota.DepthFunc {
	return func(ctx context.Context, queueKey int64) (d quota.Depth, err error) {
		bounded, cancel := pool.Bounded(ctx)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)() // nothing is lost with the connection
		err = pool.QueryRow(bounded, sqlQueueDepth, queueKey).Scan(&d.Limit, &d.Waiting, &d.Unread)
		if postgres.IsNoRows(err) {
			return quota.Depth{}, nil
		}
		return d, err
	}
}
