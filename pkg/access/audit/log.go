package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// finishTimeout limits how long an answer waits until Finish has written the row.
const finishTimeout = 2 * time.Second

// maxRetention is the largest Retention: now minus maxRetention must be within the range of timestamptz.
const maxRetention = 36500 * 24 * time.Hour

var sqlList = sql.Query("access/audit/list")

// Config is the section "audit" of the configuration.
type Config struct {
	// Retention is how long a row is kept. 0 keeps all rows.
	Retention time.Duration `mapstructure:"retention"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config { return Config{Retention: 90 * 24 * time.Hour} }

// Validate returns an error for an invalid value.
func (c Config) Validate() error {
	if c.Retention != 0 && (c.Retention < time.Second || c.Retention > maxRetention) {
		return fmt.Errorf("audit.retention is %s: it must be 0 or from 1s to %s", c.Retention, maxRetention)
	}
	return nil
}

// Log reads and completes the audit. It is safe for concurrent use.
type Log struct {
	pool *postgres.Pool
	log  *zap.Logger
}

// NewLog returns a Log on pool.
func NewLog(pool *postgres.Pool, log *zap.Logger) *Log { return &Log{pool: pool, log: log} }

// Filter selects rows. A field that is nil or zero selects all rows.
type Filter struct {
	Action, Queue, Group, Subject *string
	// From and To are the first and the last instant, both inclusive.
	From, To time.Time
	// Allowed are patterns of names of queues, as in belfry.matches. Nil selects all. A row without a
	// queue matches no pattern.
	Allowed []string
}

// Key is the sort key of a row. A page begins after a key. The zero Key selects the first page.
type Key struct {
	At time.Time
	ID queue.ID
}

// Row is one row. Subject, TokenID and the fields of Target are empty if they are NULL.
type Row struct {
	Key
	Subject, TokenID   string
	Address, RequestID string
	Action             string
	Target
	// Parameters and Counts are JSON objects.
	Parameters, Counts json.RawMessage
	Result             string
	// Undoable means that the change has old values, and no later change makes an undo impossible. UndoneBy is the row of the
	// undo, or zero.
	Undoable bool
	UndoneBy queue.ID
}

// UndoID returns the id of the row of the undo, or "".
func (r *Row) UndoID() string {
	if r.UndoneBy == (queue.ID{}) {
		return ""
	}
	return r.UndoneBy.String()
}

// List returns up to limit rows after a key, newest first. Errors: CodeUnavailable.
func (l *Log) List(ctx context.Context, f Filter, after Key, limit int64) ([]Row, error) {
	rows, err := postgres.Collect(ctx, l.pool, sqlList, readRow, f.Action, f.Queue, f.Group, f.Subject,
		zeronull.Timestamptz(f.From), zeronull.Timestamptz(f.To), zeronull.Timestamptz(after.At), [16]byte(after.ID), limit, postgres.LikePatterns(f.Allowed), int64(MaxUndoable))
	return rows, postgres.Wrapf(err, "listing the audit")
}

func readRow(row pgx.CollectableRow) (r Row, err error) {
	err = row.Scan((*[16]byte)(&r.ID), &r.At, (*zeronull.Text)(&r.Subject), (*zeronull.Text)(&r.TokenID), &r.Address, &r.RequestID,
		&r.Action, (*zeronull.Text)(&r.Queue), (*zeronull.Text)(&r.Partition), (*zeronull.Text)(&r.Group),
		(*zeronull.Text)(&r.TransactionID), (*[]byte)(&r.Parameters), (*[]byte)(&r.Counts), &r.Result,
		&r.Undoable, (*zeronull.UUID)(&r.UndoneBy))
	return r, err
}

// Finish writes or completes the row of a request that ended with result. If the request succeeded and
// its change wrote the row, Finish does nothing. It waits at most two seconds. If the write fails,
// Finish logs the row.
func (l *Log) Finish(ctx context.Context, e *Entry, result string) {
	if !e.Unfinished(result) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	statement, args := e.Statement(result, nil)
	if _, err := l.pool.Exec(ctx, statement, args...); err != nil {
		l.log.Warn("a row of the audit was not written", zap.String("action", e.Action), zap.String("subject", e.Subject),
			zap.String("token_id", e.TokenID), zap.String("address", e.Address), zap.String("request_id", e.RequestID),
			zap.Any("target", e.Target), zap.String("result", result), zap.Error(err))
	}
}
