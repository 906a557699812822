package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
	"github.com/belfry-mq/belfry/sql"
)

// Letters runs the verbs. It is safe for concurrent use.
type Letters struct {
	pool   *postgres.Pool
	sealer *seal.Sealer
	events *events.Bus
	log    *zap.Logger
	// page is how many dead letters one transaction takes, and budget how long
	// Redrive and Purge go on before they say what remains.
	page   int64
	budget time.Duration
}

const (
	pageSize = 1000
	budget   = 10 * time.Second
)

// New returns Letters on pool. sealer opens the payloads of queues with
// encryptionEnabled; it may be nil.
func New(pool *postgres.Pool, sealer *seal.Sealer, bus *events.Bus, log *zap.Logger) *Letters {
	return &Letters{pool: pool, sealer: sealer, events: bus, log: log, page: pageSize, budget: budget}
}

// Filter chooses dead letters; what is nil or zero chooses all.
type Filter struct {
	Queue, Group, Partition, TransactionID *string
	// From and To bound the instant of failure; both are included.
	From, To time.Time
}

func (f *Filter) args() []any {
	return []any{f.Queue, f.Group, f.Partition, instant(f.From), instant(f.To), f.TransactionID}
}

// instant is NULL for the zero time.
func instant(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// Place is where a list goes on: after the dead letter with this failure and id.
// The zero Place is the beginning.
type Place struct {
	FailedAt time.Time
	ID       int64
}

// Letter is one dead letter. The message's fields are zero when it is gone.
type Letter struct {
	Place
	Queue, Group, Partition string
	PartitionID             queue.ID
	// Error is what the consumer said, Failures how often the message failed.
	Error    string
	Failures int

	MessageID     queue.ID
	TransactionID string
	ProducerSub   string
	CreatedAt     time.Time
	// Payload is opened; nil when the message is gone, or for the reason
	// PayloadError.
	Payload      []byte
	PayloadError string
}

// List returns up to limit dead letters, the newest failure first, those after
// the first offset behind a place, and how many there are in all. Errors:
// CodeUnavailable.
func (l *Letters) List(ctx context.Context, f Filter, after Place, limit, offset int64) (letters []Letter, total int64, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	if total, _, err = l.count(ctx, &f); err != nil {
		return nil, 0, postgres.Wrap(err)
	}
	rows, err := l.pool.Query(ctx, sql.Query("deadletter/list"), append(f.args(), instant(after.FailedAt), after.ID, limit, offset)...)
	if err != nil {
		return nil, 0, postgres.Wrap(fmt.Errorf("listing dead letters: %w", err))
	}
	letters, err = pgx.CollectRows(rows, l.readLetter)
	if err != nil {
		return nil, 0, postgres.Wrap(fmt.Errorf("listing dead letters: %w", err))
	}
	return letters, total, nil
}

func (l *Letters) readLetter(row pgx.CollectableRow) (Letter, error) {
	var one Letter
	var message pgtype.UUID
	var transaction, sub pgtype.Text
	var created pgtype.Timestamptz
	var encrypted bool
	err := row.Scan(&one.ID, &one.FailedAt, &one.Failures, &one.Error, &one.Queue, &one.Group, &one.Partition,
		(*[16]byte)(&one.PartitionID), &message, &transaction, &one.Payload, &encrypted, &sub, &created)
	if err != nil {
		return one, err
	}
	one.MessageID, one.TransactionID, one.ProducerSub, one.CreatedAt = message.Bytes, transaction.String, sub.String, created.Time
	one.Payload, one.PayloadError = l.open(one.Payload, encrypted)
	return one, nil
}

// open returns the payload, or why it cannot be shown: one that cannot be opened
// does not hide the others.
func (l *Letters) open(payload []byte, encrypted bool) (opened []byte, failure string) {
	if !encrypted {
		return payload, ""
	}
	opened, err := l.sealer.Open(payload)
	if err != nil {
		return nil, err.Error()
	}
	return opened, ""
}

// count returns how many dead letters a filter chooses, and the database's clock.
func (l *Letters) count(ctx context.Context, f *Filter) (n int64, now time.Time, err error) {
	if err := l.pool.QueryRow(ctx, sql.Query("deadletter/count"), f.args()...).Scan(&n, &now); err != nil {
		return 0, now, fmt.Errorf("counting dead letters: %w", err)
	}
	return n, now, nil
}
