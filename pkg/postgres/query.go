package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlEpoch = sql.Query("engine/store/epoch")

// Collect runs a query within the request timeout and returns its rows.
func Collect[T any](ctx context.Context, pool *Pool, query string, read pgx.RowToFunc[T], args ...any) ([]T, error) {
	ctx, cancel := pool.Bounded(ctx)
	defer cancel()
	rows, err := pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, read)
}

// ScanRow runs a query within the request timeout and reads its first row into dest. Without a
// row it returns pgx.ErrNoRows.
func (p *Pool) ScanRow(ctx context.Context, dest []any, query string, args ...any) error {
	ctx, cancel := p.Bounded(ctx)
	defer cancel()
	return p.QueryRow(ctx, query, args...).Scan(dest...)
}

// InTransaction runs do in a transaction within the request timeout. It commits if do returns nil.
func (p *Pool) InTransaction(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := p.Bounded(ctx)
	defer cancel()
	return pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error { return do(ctx, tx) })
}

// CheckEpoch returns CodeUnavailable if the database is no longer in the given epoch. The
// statements that ran with ids of that epoch then changed nothing.
func (p *Pool) CheckEpoch(ctx context.Context, epoch int64) error {
	var now int64
	if err := p.ScanRow(ctx, []any{&now}, sqlEpoch); err != nil {
		return err
	}
	if now != epoch {
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: RetryAfter,
			Message: "the database was started again, or restored, meanwhile; send the request again",
		}
	}
	return nil
}

// Seconds is a time.Duration that is scanned from a float8 column with a number of seconds. NULL is 0.
type Seconds time.Duration

// ScanFloat64 implements pgtype.Float64Scanner.
func (s *Seconds) ScanFloat64(v pgtype.Float8) error {
	*s = Seconds(v.Float64 * float64(time.Second))
	return nil
}

// Wrapf is Wrap for an error that says what failed: the formatted text. It returns nil for nil.
func Wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Wrap(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
}

// LikePatterns turns patterns of belfry.matches into patterns of LIKE. Nil stays nil, which is NULL in a
// statement.
func LikePatterns(patterns []string) []string {
	if patterns == nil {
		return nil
	}
	like := make([]string, len(patterns))
	for i, pattern := range patterns {
		like[i] = likeEscaper.Replace(pattern)
	}
	return like
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%")
