// Package stream keeps the queries of stream clients and reads their state.
//
// A client registers a query by the name of its source queue and the name of the query. It pops from
// the source as the group "streams.<id of the query>". A cycle is a transaction that changes the state
// of the query in one partition, pushes results and acknowledges. Package store applies cycles. The
// state belongs to a query and a partition, and is deleted with the query or the partition. It is
// stored in clear text, even if the source has encryptionEnabled.
package stream

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlFind   = sql.Query("engine/stream/find")
	sqlCreate = sql.Query("engine/stream/create")
	sqlChange = sql.Query("engine/stream/change")
	sqlSource = sql.Query("engine/stream/source")
	sqlState  = sql.Query("engine/stream/state")
	sqlList   = sql.Query("engine/stream/list")
	sqlDelete = sql.Query("engine/stream/delete")
)

// ErrHashMismatch means that the query is registered with another hash, and that the client did not
// ask for a reset.
var ErrHashMismatch = errors.New("the hash of the query has changed")

// Streams keeps queries. It is safe for concurrent use.
type Streams struct{ pool *postgres.Pool }

// New returns Streams on pool.
func New(pool *postgres.Pool) *Streams { return &Streams{pool: pool} }

// Query is the registration of a query by a client.
type Query struct {
	Source, Name string
	// Sink is the queue that the query pushes to. It may be empty.
	Sink string
	// Hash describes the operators of the query. A query cannot use state that was stored with
	// another hash.
	Hash string
}

// Registered is the result of Register. Fresh is set if the query is new. Reset is set if the hash
// had changed and the state was deleted.
type Registered struct {
	ID           queue.ID
	Fresh, Reset bool
}

// Register creates a query, or finds it. Errors: ErrHashMismatch, with the ID, if the hash has changed and
// reset is false; CodeUnavailable.
func (s *Streams) Register(ctx context.Context, q Query, reset bool) (Registered, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	var done Registered
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		done = Registered{ID: queue.NewID(), Fresh: true}
		tag, err := tx.Exec(ctx, sqlCreate, [16]byte(done.ID), q.Source, q.Name, zeronull.Text(q.Sink), q.Hash)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		var key int64
		var hash string
		done.Fresh = false
		if err := tx.QueryRow(ctx, sqlFind, q.Source, q.Name).Scan(&key, (*[16]byte)(&done.ID), &hash); err != nil {
			return err
		}
		if done.Reset = hash != q.Hash; done.Reset && !reset {
			return ErrHashMismatch
		}
		_, err = tx.Exec(ctx, sqlChange, key, zeronull.Text(q.Sink), q.Hash, done.Reset)
		return err
	})
	if errors.Is(err, ErrHashMismatch) {
		return done, ErrHashMismatch
	}
	return done, postgres.Wrapf(err, "registering a query")
}

// Source returns the source of a query. found is false if the query does not exist. Errors:
// CodeUnavailable.
func (s *Streams) Source(ctx context.Context, id queue.ID) (source string, found bool, err error) {
	err = s.pool.ScanRow(ctx, []any{&source}, sqlSource, [16]byte(id))
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return source, err == nil, postgres.Wrapf(err, "looking up a query")
}

// StateFilter selects keys. A field that is nil or empty selects all.
type StateFilter struct {
	Keys   []string
	Prefix string
	// RipeBy selects keys whose windows end at or before RipeBy.
	RipeBy *float64
}

// Entry is a key of the state. Value is the stored JSON.
type Entry struct {
	Key       string
	Value     json.RawMessage
	UpdatedAt time.Time
}

// State returns the state of a query in a partition, by key. The result is empty if the query or the
// partition does not exist. Errors: CodeUnavailable.
func (s *Streams) State(ctx context.Context, id, partition queue.ID, f StateFilter) ([]Entry, error) {
	var from, below *string
	if f.Prefix != "" {
		from, below = &f.Prefix, after(f.Prefix)
	}
	if len(f.Keys) == 0 {
		f.Keys = nil
	}
	found, err := postgres.Collect(ctx, s.pool, sqlState, func(row pgx.CollectableRow) (e Entry, err error) {
		err = row.Scan(&e.Key, (*[]byte)(&e.Value), &e.UpdatedAt)
		return e, err
	}, [16]byte(id), [16]byte(partition), f.Keys, from, below, f.RipeBy)
	return found, postgres.Wrapf(err, "reading the state of a query")
}

// after returns the smallest text, in the order of UTF-8, that is greater than all texts with a prefix. It
// returns nil if no such text exists.
func after(prefix string) *string {
	runes := []rune(prefix)
	for n := len(runes); n > 0; n-- {
		next := runes[n-1] + 1
		if next >= 0xD800 && next <= 0xDFFF { // no text has a surrogate
			next = 0xE000
		}
		if next <= 0x10FFFF {
			text := string(runes[:n-1]) + string(next)
			return &text
		}
	}
	return nil
}

// Listed is a stored query. Keys is the number of its keys, at most 10,001.
type Listed struct {
	ID queue.ID
	Query
	CreatedAt, UpdatedAt time.Time
	Keys                 int64
}

// List returns up to limit queries by source and name. It begins after the source and name of after, or at
// the first query if after is zero. allowed holds patterns of sources (belfry.matches). Nil allows all
// sources. Errors: CodeUnavailable.
func (s *Streams) List(ctx context.Context, after Query, limit int64, allowed []string) ([]Listed, error) {
	found, err := postgres.Collect(ctx, s.pool, sqlList, func(row pgx.CollectableRow) (l Listed, err error) {
		err = row.Scan((*[16]byte)(&l.ID), &l.Source, &l.Name, &l.Sink, &l.Hash, &l.CreatedAt, &l.UpdatedAt, &l.Keys)
		return l, err
	}, zeronull.Text(after.Source), after.Name, limit, postgres.LikePatterns(allowed))
	return found, postgres.Wrapf(err, "listing queries")
}

// Delete deletes a query with its state, and writes the audit row in the same transaction. Errors:
// CodeUnavailable.
func (s *Streams) Delete(ctx context.Context, id queue.ID) (existed bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlDelete, [16]byte(id))
		if existed = err == nil && tag.RowsAffected() == 1; !existed {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"streams": 1})
	})
	return existed, postgres.Wrapf(err, "deleting a query")
}
