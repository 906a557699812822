package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// MaxError is the number of characters of an error that a Filter compares.
const MaxError = 200

const (
	// defaultPageSize is the maximum number of dead letters that one transaction redrives, moves or
	// purges.
	defaultPageSize = 1000
	// defaultBudget is the time after which Redrive, Move and Purge stop and report how many dead
	// letters remain.
	defaultBudget = 10 * time.Second
)

var (
	sqlList  = sql.Query("engine/deadletter/list")
	sqlCount = sql.Query("engine/deadletter/count")
)

// Letters runs the verbs. It is safe for concurrent use.
type Letters struct {
	pool     *postgres.Pool
	sealer   *seal.Sealer
	events   *events.Bus
	log      *zap.Logger
	pageSize int64
	budget   time.Duration
	// countSize is countPage, except in tests.
	countSize int64
}

// New returns Letters on pool. sealer opens the payloads of queues with encryptionEnabled. If sealer
// is nil, such dead letters have a PayloadError.
func New(pool *postgres.Pool, sealer *seal.Sealer, bus *events.Bus, log *zap.Logger) *Letters {
	return &Letters{pool: pool, sealer: sealer, events: bus, log: log, pageSize: defaultPageSize, budget: defaultBudget, countSize: countPage}
}

// Filter selects dead letters. A field that is nil or zero selects all.
type Filter struct {
	Queue, Group, Partition, TransactionID *string
	// Error is the first MaxError characters of the error.
	Error *string
	// Shape is the shape of the error (belfry.error_shape).
	Shape *string
	// From and To bound the instant of failure, both inclusive.
	From, To time.Time
	// AsOf selects the dead letters of an earlier count, for Redrive, RedriveAll, Move, Purge and PurgeTo. If it is zero, they
	// count the dead letters first.
	AsOf AsOf
	// Allowed holds patterns of queue names (belfry.matches), for List and Summary. Nil selects all.
	Allowed []string
}

// args returns the parameters of a statement. It changes the error like the server did before it
// stored the error.
func (f *Filter) args(ctx context.Context, pool *postgres.Pool) []any {
	failure := []*string{f.Error, f.Shape}
	for i, text := range failure {
		if text != nil {
			stored := pool.Storable(ctx, *text)
			failure[i] = &stored
		}
	}
	return []any{f.Queue, f.Group, f.Partition, zeronull.Timestamptz(f.From), zeronull.Timestamptz(f.To), f.TransactionID, failure}
}

// ListKey is the sort key of a dead letter. A page of a list begins after a key. The zero ListKey is
// the beginning.
type ListKey struct {
	FailedAt time.Time
	ID       int64
}

// Letter is one dead letter. The fields of the message are zero if the message is deleted.
type Letter struct {
	ListKey
	Queue, Group, Partition string
	PartitionID             queue.ID
	// Error is the error of the last failure, as the consumer reported it.
	Error string
	// Failures is how often the message failed.
	Failures int

	MessageID     queue.ID
	TransactionID string
	ProducerSub   string
	CreatedAt     time.Time
	Headers       queue.Headers
	// Payload is decrypted. It is nil if the message is deleted or PayloadError is set.
	Payload      []byte
	PayloadError string
}

// Page is a page of dead letters.
type Page struct {
	Letters []Letter
	// Total is the number of dead letters that the filter selects.
	Total int64
	// Cut is set if the page has fewer letters than the limit because its letters are large.
	Cut bool
}

// List returns up to limit dead letters after a key, newest failure first. It skips the first offset dead
// letters. Errors: CodeUnavailable, and CodeOverloaded if the server has no memory left for the page.
func (l *Letters) List(ctx context.Context, f Filter, after ListKey, limit, offset int64) (page Page, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	if page.Total, err = l.total(ctx, &f); err != nil {
		return Page{}, postgres.Wrap(err)
	}
	page.Letters, page.Cut, err = postgres.ReadPage(ctx, limit, func(n int64, last *Letter) pgx.Rows {
		if last != nil {
			after, offset = last.ListKey, 0
		}
		rows, _ := l.pool.Query(ctx, sqlList, append(f.args(ctx, l.pool), zeronull.Timestamptz(after.FailedAt), after.ID, n, offset, postgres.LikePatterns(f.Allowed))...)
		return rows
	}, l.readLetter)
	return page, postgres.Wrapf(err, "listing dead letters")
}

func (l *Letters) readLetter(row pgx.CollectableRow) (letter Letter, err error) {
	var encrypted bool
	err = row.Scan(&letter.ID, &letter.FailedAt, &letter.Failures, &letter.Error, &letter.Queue, &letter.Group, &letter.Partition,
		&letter.PartitionID, (*zeronull.UUID)(&letter.MessageID), (*zeronull.Text)(&letter.TransactionID), &letter.Payload, &encrypted,
		(*zeronull.Text)(&letter.ProducerSub), (*zeronull.Timestamptz)(&letter.CreatedAt), (*[]byte)(&letter.Headers))
	if err == nil {
		letter.Payload, letter.PayloadError = l.decrypt(letter.Payload, encrypted, seal.Message{
			Queue: letter.Queue, Partition: letter.Partition, ID: letter.MessageID,
		})
	}
	return letter, err
}

// decrypt returns the payload, or the reason why it cannot be decrypted. The reason is a text and
// not an error, so that one unreadable payload does not hide the other dead letters.
func (l *Letters) decrypt(payload []byte, encrypted bool, message seal.Message) (opened []byte, failure string) {
	if !encrypted {
		return payload, ""
	}
	opened, err := l.sealer.Open(payload, message)
	if err != nil {
		return nil, err.Error()
	}
	return opened, ""
}

// total returns the number of dead letters that a filter selects.
func (l *Letters) total(ctx context.Context, f *Filter) (n int64, err error) {
	if err := l.pool.QueryRow(ctx, sqlCount, append(f.args(ctx, l.pool), postgres.LikePatterns(f.Allowed))...).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting dead letters: %w", err)
	}
	return n, nil
}

// appendReady adds a partition that becomes ready for a group after the time in. If in is nil, it
// adds nothing.
func appendReady(ready []queue.Ready, group, partition int64, in *postgres.Seconds) []queue.Ready {
	if in == nil {
		return ready
	}
	return append(ready, queue.Ready{Group: group, Partition: partition, In: time.Duration(*in)})
}
