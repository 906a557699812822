// Package trace stores events that consumers record about a message while they handle
// it. An event has data and any number of names. The list of the traces with a given name
// shows a flow through several queues in order.
//
// A trace belongs to its message and is deleted with it. Deleting a queue deletes its
// traces page by page. Storing a trace takes a share lock on the row of the message and
// wakes no consumer. A page of a list starts after a position, so its cost does not
// depend on the number of traces before the page.
package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlInsert      = sql.Query("insight/trace/insert")
	sqlOfMessage   = sql.Query("insight/trace/of_message")
	sqlByName      = sql.Query("insight/trace/by_name")
	sqlByNameCount = sql.Query("insight/trace/by_name_count")
	sqlNames       = sql.Query("insight/trace/names")
	sqlNewestNames = sql.Query("insight/trace/names_newest")
)

// Traces stores and lists traces. It is safe for concurrent use.
type Traces struct {
	pool   *postgres.Pool
	sealer *seal.Sealer
	worker string
}

// New returns Traces that use pool. sealer decrypts the payloads of queues with
// encryptionEnabled; sealer may be nil. worker is the name of this instance. Each trace stores worker.
func New(pool *postgres.Pool, sealer *seal.Sealer, worker string) *Traces {
	return &Traces{pool: pool, sealer: sealer, worker: worker}
}

// Event is a record of a consumer about a message.
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
	// Worker is the name of the instance that stored the trace.
	Worker      string
	Group, Type string
	Names       []string
	Data        json.RawMessage
}

// NamedTrace is a trace with its message.
type NamedTrace struct {
	Trace
	TransactionID    string
	PartitionID      queue.ID
	Queue, Partition string
	// Payload is decrypted; nil when that failed.
	Payload []byte
}

// Position is the trace after which a list continues. The zero Position is the beginning.
type Position struct {
	CreatedAt time.Time
	ID        queue.ID
}

// Page is a part of a list.
type Page struct {
	// Limit is the maximum number of rows. Offset is the number of rows to skip.
	Limit, Offset int64
	// Allowed are patterns of queue names, as in belfry.matches. The list and the count cover only the traces of
	// matching queues. Nil allows all queues.
	Allowed []string
	// Bound makes the cost of a list independent of the number of traces. Names reads only the Bound newest
	// traces. ByName counts at most Bound traces. 0 means no bound.
	Bound int64
}

// Add stores a trace and returns its id. It replaces characters that the encoding of the database does not have.
// Errors: CodeNotFound when the message does not exist, CodeUnavailable.
func (t *Traces) Add(ctx context.Context, e Event) (queue.ID, error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	id := queue.NewID()
	names := []string{} // after the replacement of characters two names may be equal; such a name is stored once
	for _, name := range e.Names {
		if name = t.pool.Storable(ctx, name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var n int64
	err := t.pool.QueryRow(ctx, sqlInsert, [16]byte(id), [16]byte(e.PartitionID), e.TransactionID,
		t.pool.Storable(ctx, e.Group), t.pool.Storable(ctx, e.Type), t.pool.Storable(ctx, t.worker), names, string(t.pool.StorableJSON(ctx, e.Data))).Scan(&n)
	if err != nil {
		return id, postgres.Wrap(fmt.Errorf("storing a trace of message %q: %w", e.TransactionID, err))
	}
	if n == 0 {
		return id, &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
	}
	return id, nil
}

// OfMessage returns up to limit traces of a message after a position, oldest first. It returns no trace if the message
// does not exist. cut is true if the page ends before limit because the traces are large. Errors: CodeUnavailable, and
// CodeOverloaded if the traces exceed the memory of the request.
func (t *Traces) OfMessage(ctx context.Context, partition queue.ID, transactionID string, after Position, limit int64) (found []Trace, cut bool, err error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	found, cut, err = postgres.ReadPage(ctx, limit, func(n int64, last *Trace) pgx.Rows {
		if last != nil {
			after = Position{last.CreatedAt, last.ID}
		}
		rows, _ := t.pool.Query(ctx, sqlOfMessage, [16]byte(partition), transactionID, n, zeronull.Timestamptz(after.CreatedAt), [16]byte(after.ID))
		return rows
	}, func(row pgx.CollectableRow) (trace Trace, err error) {
		err = row.Scan(trace.columns()...)
		return trace, err
	})
	return found, cut, postgres.Wrapf(err, "listing the traces of message %q", transactionID)
}

func (t *Trace) columns() []any {
	return []any{(*[16]byte)(&t.ID), &t.CreatedAt, &t.Group, &t.Type, &t.Worker, &t.Names, (*[]byte)(&t.Data)}
}

// ByName returns a page of the traces with a name, oldest first, after a position. total counts the traces with the name.
// cut is true if the page ends before its limit because the traces are large. Errors: CodeUnavailable, and CodeOverloaded
// if the traces exceed the memory of the request.
func (t *Traces) ByName(ctx context.Context, name string, after Position, page Page) (found []NamedTrace, total int64, cut bool, err error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	patterns := postgres.LikePatterns(page.Allowed)
	name = t.pool.Storable(ctx, name)
	err = t.pool.QueryRow(ctx, sqlByNameCount, name, patterns, zeronull.Int8(page.Bound)).Scan(&total)
	if err == nil {
		found, cut, err = postgres.ReadPage(ctx, page.Limit, func(n int64, last *NamedTrace) pgx.Rows {
			if last != nil {
				after, page.Offset = Position{last.CreatedAt, last.ID}, 0
			}
			rows, _ := t.pool.Query(ctx, sqlByName, name, zeronull.Timestamptz(after.CreatedAt), [16]byte(after.ID), n, page.Offset, patterns)
			return rows
		}, t.readNamed)
	}
	if err != nil {
		return nil, 0, false, postgres.Wrap(fmt.Errorf("listing the traces named %q: %w", name, err))
	}
	return found, total, cut, nil
}

func (t *Traces) readNamed(row pgx.CollectableRow) (named NamedTrace, err error) {
	var transaction pgtype.Text
	var encrypted bool
	var message zeronull.UUID
	err = row.Scan(append(named.columns(), &message, &transaction, &named.Payload, &encrypted, (*[16]byte)(&named.PartitionID),
		&named.Partition, &named.Queue)...)
	named.TransactionID = transaction.String
	if err == nil && encrypted {
		bound := seal.Message{Queue: named.Queue, Partition: named.Partition, ID: message}
		named.Payload, _ = t.sealer.Open(named.Payload, bound) // if Open fails, the list shows the trace without its payload
	}
	return named, err
}

// Names returns a page of the names, the most recently used first.
// total counts the names. Without page.Bound, Names reads all names and counts the traces of
// the returned names. Errors: CodeUnavailable.
func (t *Traces) Names(ctx context.Context, page Page) (names []api.TraceName, total int64, err error) {
	ctx, cancel := t.pool.Bounded(ctx)
	defer cancel()
	var name pgtype.Text
	var seen pgtype.Timestamptz
	var count api.TraceName
	query, args := sqlNames, []any{page.Limit, page.Offset, postgres.LikePatterns(page.Allowed)}
	if page.Bound > 0 {
		query, args = sqlNewestNames, append(args, page.Bound)
	}
	rows, _ := t.pool.Query(ctx, query, args...) // ForEachRow returns the error of Query
	_, err = pgx.ForEachRow(rows, []any{&total, &name, &seen, &count.Traces, &count.Messages}, func() error {
		if name.Valid {
			count.Name, count.LastSeen = name.String, seen.Time
			names = append(names, count)
		}
		return nil
	})
	if err != nil {
		return nil, 0, postgres.Wrap(fmt.Errorf("listing the names of traces: %w", err))
	}
	return names, total, nil
}
