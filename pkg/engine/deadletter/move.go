package deadletter

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlMove       = sql.Query("engine/deadletter/move")
	sqlMoveQueues = sql.Query("engine/deadletter/move_queues")
)

// Move pushes the messages of dead letters to the queue target and deletes these dead letters. A transaction does both for up to
// 1,000 of them, so none is lost or moved twice. A pushed message keeps its partition name, payload, transaction id and trace
// id. It is in the inbox first, where target may refuse it: see pkg/engine/inbox. A message whose partition of target has its
// transaction id is not stored again.
//
// f.Queue is set, and is not target. Result.Skipped includes dead letters whose message is deleted or encrypted: they stay. Move
// is bounded as Redrive is. Errors: CodeInvalid if the payloads of f.Queue are encrypted, because the inbox would store them in
// the clear; CodeNotFound if target does not exist; CodeUnavailable, as in Redrive.
func (l *Letters) Move(ctx context.Context, f Filter, target string, rate int64, dryRun bool) (Result, error) {
	if err := l.checkMove(ctx, *f.Queue, target); err != nil {
		return Result{}, err
	}
	result, err := l.takePages(ctx, f, run{rate: rate, dryRun: dryRun, budget: l.budget, take: func(ctx context.Context, b batch) (n int64, err error) {
		err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, sqlMove, b.ids, b.epoch, target).Scan(&n); err != nil {
				return err
			}
			return audit.Write(ctx, tx, audit.Counts{"deadLetters": b.taken + n})
		})
		if err != nil {
			return 0, err
		}
		return n, nil
	}})
	return result, postgres.Wrapf(err, "moving dead letters to queue %q", target)
}

func (l *Letters) checkMove(ctx context.Context, source, target string) error {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	var sealed, exists bool
	err := l.pool.QueryRow(ctx, sqlMoveQueues, source, target).Scan(&sealed, &exists)
	switch {
	case err != nil:
		return postgres.Wrapf(err, "reading queues %q and %q", source, target)
	case sealed:
		return queue.Invalidf("queue %q has encryptionEnabled: its dead letters cannot be moved, because that would store their payloads in the clear", source)
	case !exists:
		return &queue.Error{Code: queue.CodeNotFound, Message: fmt.Sprintf("queue %q does not exist: create it first", target)}
	}
	return nil
}
