package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlRejectedList    = sql.Query("engine/inbox/rejected_list")
	sqlRejectedNewest  = sql.Query("engine/inbox/rejected_newest")
	sqlRejectedPage    = sql.Query("engine/inbox/rejected_page")
	sqlRejectedRetry   = sql.Query("engine/inbox/rejected_retry")
	sqlRejectedDiscard = sql.Query("engine/inbox/rejected_discard")
)

const (
	// maxExamined bounds the rows that one call of List reads.
	maxExamined = 10_000
	// rejectedPage is the maximum number of rows that one transaction of Retry or Discard reads.
	rejectedPage = 1000
	// rejectedBudget is the time after which Retry and Discard stop and report that more rows may
	// remain.
	rejectedBudget = 10 * time.Second
)

// Rejections lists, retries and discards the rows of belfry.inbox_rejected. It is safe for concurrent
// use.
type Rejections struct {
	pool     *postgres.Pool
	examined int64
	page     int64
	budget   time.Duration
}

// NewRejections returns Rejections on pool.
func NewRejections(pool *postgres.Pool) *Rejections {
	return &Rejections{pool: pool, examined: maxExamined, page: rejectedPage, budget: rejectedBudget}
}

// RejectedFilter selects rejected rows. A field that is nil or zero selects all.
type RejectedFilter struct {
	// ID selects one row. Only Retry and Discard use it.
	ID          int64
	Queue, Code *string
	// Allowed holds patterns of queue names (belfry.matches). Only List uses it. Nil selects all.
	Allowed []string
}

// Rejection is a rejected row. A name that is not UTF-8 is nil.
type Rejection struct {
	ID                              int64
	Queue, Partition, TransactionID *string
	TraceID                         queue.ID
	VisibleAt                       time.Time
	InsertedAt, RejectedAt          time.Time
	// Code is invalid, too_large or queue_full. Reason is the text of the error.
	Code, Reason string
	// StoredBytes is the space that the payload takes in the database. Excerpt is the beginning of the
	// payload, or nil if the payload cannot be shown.
	StoredBytes int64
	Excerpt     *string
}

// RejectedList is a page of rejected rows.
type RejectedList struct {
	Rows []Rejection
	// Examined is the number of rows that were read.
	Examined int64
	// Next is the value of before for the next page, or 0 at the end.
	Next int64
}

// List returns up to limit rows with an id below before, newest first. A before of 0 selects the newest
// rows. List examines at most 10,000 rows, so a page may have fewer rows than limit although more rows
// match. Then Next is set. Errors: CodeUnavailable.
func (r *Rejections) List(ctx context.Context, f RejectedFilter, before, limit int64) (list RejectedList, err error) {
	var last zeronull.Int8
	list.Rows, err = postgres.Collect(ctx, r.pool, sqlRejectedList, func(row pgx.CollectableRow) (rejection Rejection, err error) {
		var id, bytes zeronull.Int8
		err = row.Scan(&list.Examined, &last, &id, &rejection.Queue, &rejection.Partition, &rejection.TransactionID, (*zeronull.UUID)(&rejection.TraceID),
			(*zeronull.Timestamptz)(&rejection.VisibleAt), (*zeronull.Timestamptz)(&rejection.InsertedAt), (*zeronull.Timestamptz)(&rejection.RejectedAt),
			(*zeronull.Text)(&rejection.Code), (*zeronull.Text)(&rejection.Reason), &bytes, &rejection.Excerpt)
		rejection.ID, rejection.StoredBytes = int64(id), int64(bytes)
		return rejection, err
	}, zeronull.Int8(before), f.Queue, f.Code, postgres.LikePatterns(f.Allowed), r.examined, limit)
	if err != nil {
		return RejectedList{}, postgres.Wrapf(err, "listing the rejected rows of the inbox")
	}
	if list.Rows[0].ID == 0 { // no row matches
		list.Rows = nil
	}
	switch n := len(list.Rows); {
	case int64(n) == limit:
		list.Next = list.Rows[n-1].ID
	case list.Examined == r.examined:
		list.Next = int64(last)
	}
	return list, nil
}

// Retry puts rejected rows back at the end of the inbox and returns their number. It takes only rows that
// exist when it begins, in transactions of at most 1,000 rows. If more is true, Retry stopped after 10
// seconds or failed, and the same call continues. Committed transactions stay committed after an error.
// Errors: CodeUnavailable.
func (r *Rejections) Retry(ctx context.Context, f RejectedFilter) (rows int64, more bool, err error) {
	rows, more, err = r.take(ctx, f, sqlRejectedRetry)
	return rows, more, postgres.Wrapf(err, "retrying rejected rows of the inbox")
}

// Discard deletes rejected rows and returns their number. It has the time limit of Retry. Errors:
// CodeUnavailable.
func (r *Rejections) Discard(ctx context.Context, f RejectedFilter) (rows int64, more bool, err error) {
	rows, more, err = r.take(ctx, f, sqlRejectedDiscard)
	return rows, more, postgres.Wrapf(err, "discarding rejected rows of the inbox")
}

// take runs a statement with the ids of the rows that a filter selects, page by page.
func (r *Rejections) take(ctx context.Context, f RejectedFilter, statement string) (rows int64, more bool, err error) {
	began := time.Now()
	at := progress{after: f.ID - 1, last: f.ID}
	if f.ID == 0 {
		at.after = 0
		if err := r.pool.ScanRow(ctx, []any{&at.last}, sqlRejectedNewest); err != nil {
			return 0, false, fmt.Errorf("finding the newest row: %w", err)
		}
	}
	for at.after < at.last {
		if time.Since(began) >= r.budget {
			return at.taken, true, nil
		}
		next, err := r.takePage(ctx, f, at, statement)
		if err != nil {
			return at.taken, true, err
		}
		if next.after == 0 {
			break
		}
		at = next
	}
	return at.taken, false, nil
}

// progress is the state of a Retry or Discard.
type progress struct {
	// after is the last examined id. last is the id of the last row to examine.
	after, last int64
	// taken is the number of retried or discarded rows.
	taken int64
}

// takePage takes the matching rows of the next page. It returns the new progress. Its after is 0 if no
// row is left to examine.
func (r *Rejections) takePage(ctx context.Context, f RejectedFilter, at progress, statement string) (next progress, err error) {
	ctx, cancel := r.pool.Bounded(ctx)
	defer cancel()
	next = at
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		var ids []int64
		err := tx.QueryRow(ctx, sqlRejectedPage, at.after, at.last, f.Queue, f.Code, r.page).Scan((*zeronull.Int8)(&next.after), &ids)
		if err != nil || len(ids) == 0 {
			return err
		}
		var n int64
		if err := tx.QueryRow(ctx, statement, ids).Scan(&n); err != nil {
			return err
		}
		next.taken = at.taken + n
		return audit.Write(ctx, tx, audit.Counts{"rows": next.taken})
	})
	return next, err
}

var (
	sqlReject   = sql.Query("engine/inbox/reject")
	sqlReadable = sql.Query("engine/inbox/readable")
)

// reject moves rows to belfry.inbox_rejected.
func (s *Sequencer) reject(ctx context.Context, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := s.SequencerPool.Bounded(ctx)
	defer cancel()
	ids, codes, reasons := make([]int64, len(rows)), make([]string, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		ids[i], codes[i], reasons[i] = r.id, string(r.problem.Code), s.SequencerPool.Storable(ctx, r.problem.Message)
	}
	if _, err := s.conn.Exec(ctx, sqlReject, ids, codes, reasons); err != nil {
		return fmt.Errorf("rejecting %d rows: %w", len(rows), err)
	}
	for _, code := range codes {
		s.Metrics.rejected.WithLabelValues(code).Inc()
	}
	s.Log.Warn("messages written by SQL were rejected; they are in belfry.inbox_rejected",
		zap.Int("rows", len(rows)), zap.String("first_reason", reasons[0]))
	return nil
}

// notUTF8 reports whether the database could not convert a text to UTF-8.
func notUTF8(err error) bool {
	state := postgres.SQLState(err)
	return state == "22021" || state == "22P05"
}

// rejectUnreadable rejects the first rows with a text that is not UTF-8 and returns how many it
// rejected.
func (s *Sequencer) rejectUnreadable(ctx context.Context) (int, error) {
	found, err := s.findUnreadable(ctx)
	if err != nil {
		return 0, fmt.Errorf("searching for unreadable rows of the inbox: %w", err)
	}
	return len(found), s.reject(ctx, found)
}

// findUnreadable searches the first batchRows rows of the inbox. The scan has moved all batches
// before the unreadable row, so that row is among them. If a search times out because of large
// rows, findUnreadable searches fewer rows per statement. It stops after the first statement that
// finds an unreadable row.
func (s *Sequencer) findUnreadable(ctx context.Context) (found []row, err error) {
	after, limit := int64(math.MinInt64), batchRows
	for left := batchRows; left > 0 && len(found) == 0; {
		checked, err := s.checkReadable(ctx, after, min(limit, left))
		switch timedOut := postgres.SQLState(err) == queryCanceled || errors.Is(err, context.DeadlineExceeded); {
		case timedOut && limit > 1 && ctx.Err() == nil:
			limit = max(limit/10, 1)
			continue
		case err != nil || len(checked) == 0:
			return nil, err
		}
		left -= len(checked)
		after = checked[len(checked)-1].id
		found = slices.DeleteFunc(checked, func(r row) bool { return r.problem == nil })
	}
	return found, nil
}

// checkReadable returns up to n rows with an id above after. It sets problem in rows that are not
// UTF-8.
func (s *Sequencer) checkReadable(ctx context.Context, after int64, n int) ([]row, error) {
	return postgres.Collect(ctx, s.SequencerPool, sqlReadable, func(found pgx.CollectableRow) (r row, err error) {
		var readable bool
		if err = found.Scan(&r.id, &readable); !readable {
			r.problem = queue.Invalidf("the row cannot be read as UTF-8: client_encoding did not match the encoding of the text")
		}
		return r, err
	}, after, int64(n), s.cfg.MaxPayload)
}
