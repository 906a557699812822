package stats

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// Reader reads queues and messages. It is safe for concurrent use.
type Reader struct{ pool *postgres.Pool }

// New returns a Reader on pool.
func New(pool *postgres.Pool) *Reader { return &Reader{pool: pool} }

// collect runs a statement within the request timeout and returns its rows.
func collect[T any](ctx context.Context, pool *postgres.Pool, statement string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	ctx, cancel := pool.Bounded(ctx)
	defer cancel()
	rows, err := pool.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}
