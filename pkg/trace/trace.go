package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
	"github.com/belfry-mq/belfry/sql"
)

// Traces stores and lists traces. It is safe for concurrent use.
type Traces struct {
	pool   *postgres.Pool
	sealer *seal.Sealer
	worker string
}

// New returns Traces on pool. sealer opens the payloads of queues with
// encryptionEnabled; it may be nil. worker names this instance in what it stores.
func New(pool *postgres.Pool, sealer *seal.Sealer, worker string) *Traces {
	return &Traces{pool: pool, sealer: sealer, worker: worker}
}

// Event is what a consumer notes about a message.
type Event struct {
	PartitionID   queue.ID
	TransactionID string
	Group, Type   string
	// Names are distinct.
	Names []string
	// Data is a JSON value.
	Data json.RawMessage
}

// Trace is a stored Event.
type Trace struct {
	ID        queue.ID
	CreatedAt time.Time
	// Worker is the instance that stored it.
	Worker      string
	Group, Type string
	Names       []string
	Data        json.RawMessage
}

// Named is a trace with the message it belongs to.
type Named struct {
	Trace
	TransactionID    string
	PartitionID      queue.ID
	Queue, Partition string
	// Payload is opened; nil when it cannot be.
	Payload []byte
}

// Name is one name and how much bears it.
type Name struct {
	Name             string
	Traces, Messages int64
	LastSeen         time.Time
}

// Place is where a list of traces goes on: after this one. The zero Place is the
// beginning.
type Place struct {
	CreatedAt time.Time
	ID        queue.ID
}

// Add stores a trace and returns its id. Errors: CodeNotFound when there is no
// such message, CodeUnavailable.
func (t *Traces) Add(ctx context.Context, e Event) (queue.ID, error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	id := queue.NewID()
	names := e.Names
	if names == nil {
		names = []string{}
	}
	var n int64
	err := t.pool.QueryRow(ctx, sql.Query("trace/insert"), [16]byte(id), [16]byte(e.PartitionID), e.TransactionID,
		e.Group, e.Type, t.worker, names, string(e.Data)).Scan(&n)
	if err != nil {
		return id, postgres.Wrap(fmt.Errorf("storing a trace of message %q: %w", e.TransactionID, err))
	}
	if n == 0 {
		return id, &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
	}
	return id, nil
}

// OfMessage returns the first limit traces of a message, oldest first; none for a
// message that does not exist. Errors: CodeUnavailable.
func (t *Traces) OfMessage(ctx context.Context, partition queue.ID, transactionID string, limit int64) ([]Trace, error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	rows, err := t.pool.Query(ctx, sql.Query("trace/of_message"), [16]byte(partition), transactionID, limit)
	var found []Trace
	if err == nil {
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Trace, error) {
			var one Trace
			err := row.Scan(one.columns()...)
			return one, err
		})
	}
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("listing the traces of message %q: %w", transactionID, err))
	}
	return found, nil
}

func (t *Trace) columns() []any {
	return []any{(*[16]byte)(&t.ID), &t.CreatedAt, &t.Group, &t.Type, &t.Worker, &t.Names, (*[]byte)(&t.Data)}
}

// ByName returns up to limit traces with a name, oldest first, those after the
// first offset behind a place, and how many there are in all. Errors:
// CodeUnavailable.
func (t *Traces) ByName(ctx context.Context, name string, after Place, limit, offset int64) (found []Named, total int64, err error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	place := pgtype.Timestamptz{Time: after.CreatedAt, Valid: !after.CreatedAt.IsZero()}
	err = t.pool.QueryRow(ctx, sql.Query("trace/by_name_count"), name).Scan(&total)
	var rows pgx.Rows
	if err == nil {
		rows, err = t.pool.Query(ctx, sql.Query("trace/by_name"), name, place, [16]byte(after.ID), limit, offset)
	}
	if err == nil {
		found, err = pgx.CollectRows(rows, t.readNamed)
	}
	if err != nil {
		return nil, 0, postgres.Wrap(fmt.Errorf("listing the traces named %q: %w", name, err))
	}
	return found, total, nil
}

func (t *Traces) readNamed(row pgx.CollectableRow) (Named, error) {
	var one Named
	var transaction pgtype.Text
	var encrypted bool
	err := row.Scan(append(one.columns(), &transaction, &one.Payload, &encrypted, (*[16]byte)(&one.PartitionID),
		&one.Partition, &one.Queue)...)
	one.TransactionID = transaction.String
	if err == nil && encrypted {
		opened, failed := t.sealer.Open(one.Payload)
		if failed != nil {
			opened = nil // the trace is worth showing all the same
		}
		one.Payload = opened
	}
	return one, err
}

// Names returns up to limit names after the first offset, the latest seen first,
// and how many there are in all. It costs O(names), and counts for those it
// returns. Errors: CodeUnavailable.
func (t *Traces) Names(ctx context.Context, limit, offset int64) (names []Name, total int64, err error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	rows, err := t.pool.Query(ctx, sql.Query("trace/names"), limit, offset)
	if err == nil {
		var name pgtype.Text
		var seen pgtype.Timestamptz
		var one Name
		_, err = pgx.ForEachRow(rows, []any{&total, &name, &seen, &one.Traces, &one.Messages}, func() error {
			if name.Valid {
				one.Name, one.LastSeen = name.String, seen.Time
				names = append(names, one)
			}
			return nil
		})
	}
	if err != nil {
		return nil, 0, postgres.Wrap(fmt.Errorf("listing the names of traces: %w", err))
	}
	return names, total, nil
}
