package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
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

// CheckEpoch returns CodeUnavailable if the database is no longer in the given epoch. In that case, statements with ids of that
// epoch changed nothing.
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

// Wrapf is like Wrap, and puts the formatted text before the error to say what failed. It returns nil if err is nil.
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

const (
	// rowOverhead is an estimate of the bytes that a row takes in memory and in JSON besides its columns.
	rowOverhead = 512
	// firstRows is the number of rows of a page that are read first. From their size, ReadPage computes how many more rows fit.
	firstRows = 16
)

// Query is Query of pgxpool. If ctx has a reservation (see pkg/process/inflight), each row that arrives counts as part of the
// answer of the request. If too little memory is left, the rows end with CodeOverloaded.
func (p *Pool) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows, err := p.Pool.Query(ctx, query, args...)
	if memory := inflight.From(ctx); memory != nil {
		rows = &meteredRows{Rows: rows, memory: memory}
	}
	return rows, err
}

// QueryRow is QueryRow of pgxpool. It counts the row like Query.
func (p *Pool) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	memory := inflight.From(ctx)
	if memory == nil {
		return p.Pool.QueryRow(ctx, query, args...)
	}
	rows, _ := p.Query(ctx, query, args...) // Scan returns its error
	return firstRow{rows}
}

// meteredRows counts the bytes of its rows.
type meteredRows struct {
	pgx.Rows
	memory *inflight.Reservation
	full   bool
}

// If no memory is left for the row, Next discards the other rows and returns false.
func (r *meteredRows) Next() bool {
	if r.full || !r.Rows.Next() {
		return false
	}
	size := rowOverhead
	for _, value := range r.RawValues() {
		size += len(value)
	}
	if r.full = !r.memory.Read(size); r.full {
		r.Close()
	}
	return !r.full
}

// Err returns the error that ended the rows.
func (r *meteredRows) Err() error {
	if r.full {
		return queue.MemoryFull()
	}
	return r.Rows.Err()
}

// firstRow is a pgx.Row that reads the first of its rows.
type firstRow struct{ rows pgx.Rows }

// Scan reads the row, or returns pgx.ErrNoRows.
func (r firstRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// ReadPage reads a page of a list whose rows may be large. The page has at most limit rows, and not more bytes than the
// reservation of ctx allows, but at least one row. cut reports whether it has fewer rows than limit because of its bytes.
//
// ask queries the next n rows after last, which is nil at the beginning of the page. ask may ignore the error of Pool.Query,
// because the rows return the error. Errors: CodeOverloaded if no memory is left, and the errors of ask and read.
func ReadPage[Row any](ctx context.Context, limit int64, ask func(n int64, last *Row) pgx.Rows, read pgx.RowToFunc[Row]) (page []Row, cut bool, err error) {
	memory := inflight.From(ctx)
	if memory == nil {
		page, err = pgx.CollectRows(ask(limit, nil), read)
		return page, false, err
	}
	if !memory.StartPage() {
		return nil, false, queue.MemoryFull()
	}
	var last *Row
	for n := min(limit, firstRows); ; {
		asked := int64(len(page)) + n
		cut, err = appendRows(memory, &page, ask(n, last), read)
		got := int64(len(page))
		if cut || err != nil || got < asked || got == limit {
			return page, cut, err
		}
		last = &page[got-1]
		fit := memory.PageBytesLeft() / max(1, memory.BytesRead()/got)
		n = max(1, min(fit, limit-got))
	}
}

// appendRows appends rows to a page until its memory is used up. It closes rows.
func appendRows[Row any](memory *inflight.Reservation, page *[]Row, rows pgx.Rows, read pgx.RowToFunc[Row]) (cut bool, err error) {
	defer rows.Close()
	for rows.Next() {
		if len(*page) > 0 && memory.PageBytesLeft() < 0 {
			return true, nil
		}
		row, err := read(rows)
		if err != nil {
			return false, err
		}
		*page = append(*page, row)
	}
	if err := rows.Err(); queue.CodeOf(err) != queue.CodeOverloaded || len(*page) == 0 {
		return false, err
	}
	return true, nil // the memory is full
}
