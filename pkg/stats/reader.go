package stats

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

// Reader reads queues and messages. It is safe for concurrent use.
type Reader struct{ pool *postgres.Pool }

// New returns a Reader on pool.
func New(pool *postgres.Pool) *Reader { return &Reader{pool: pool} }

// collect runs one of our statements and returns its rows.
func collect[T any](ctx context.Context, r *Reader, query string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	ctx, cancel := r.pool.Bounded(ctx)
	defer cancel()
	rows, err := r.pool.Query(ctx, sql.Query(query), args...)
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", query, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", query, err)
	}
	return found, nil
}
