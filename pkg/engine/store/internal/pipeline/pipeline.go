// Package pipeline sends several statements to Postgres in one round trip.
//
// A pipeline may open a transaction. Whatever happens, the connection leaves the pipeline without
// an open transaction: after an error the package rolls back. The package knows no table and no
// statement. It is imported by the other packages below pkg/engine/store.
package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// ReadFunc reads the results of a pipeline, in the order of its statements.
type ReadFunc func(results pgx.BatchResults) error

// SendFunc sends a pipeline on a connection of its choice. Errors come from read, from
// the connection, and from a statement whose result read did not ask for.
type SendFunc func(ctx context.Context, b *pgx.Batch, read ReadFunc) error

// On returns a SendFunc that takes a connection of pool for each pipeline.
func On(pool *pgxpool.Pool) SendFunc {
	return func(ctx context.Context, b *pgx.Batch, read ReadFunc) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return Send(ctx, conn, b, read)
	}
}

// Confirmed is On, and the SendFunc fails if a commit was not confirmed: see postgres.Confirmed.
func Confirmed(pool *pgxpool.Pool) SendFunc {
	return func(ctx context.Context, b *pgx.Batch, read ReadFunc) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return SendConfirmed(ctx, conn, b, read)
	}
}

// ConfirmedOn is Confirmed for the connection conn.
func ConfirmedOn(conn *pgxpool.Conn) SendFunc {
	return func(ctx context.Context, b *pgx.Batch, read ReadFunc) error { return SendConfirmed(ctx, conn, b, read) }
}

// SendConfirmed is Send, and fails if a commit was not confirmed: see postgres.Confirmed. If a later statement fails as
// well, the error has both.
func SendConfirmed(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch, read ReadFunc) error {
	err := Send(ctx, conn, b, read)
	if unconfirmed := postgres.Confirmed(conn.Conn()); unconfirmed != nil {
		return errors.Join(unconfirmed, err)
	}
	return err
}

// Send sends b on conn and passes the results to read. After an error no transaction is open.
func Send(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch, read ReadFunc) error {
	results := conn.SendBatch(ctx, b)
	err := read(results)
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		Rollback(ctx, conn)
	}
	return err
}

// Rollback ends the open transaction of conn, if there is one. The pool drops a connection whose
// rollback fails.
func Rollback(ctx context.Context, conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return // the caller reports the error that made it roll back
		}
	}
}

// Skip reads one result for each step and ignores its rows. step names the statement in the error.
func Skip(results pgx.BatchResults, steps ...string) error {
	for _, step := range steps {
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}

// ForEach reads one result: it scans each row into targets and calls each. step names the statement in
// the error.
func ForEach(results pgx.BatchResults, step string, targets []any, each func() error) error {
	rows, _ := results.Query() // rows hold the error
	if _, err := pgx.ForEachRow(rows, targets, each); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

// Array returns list, or an empty list for nil: the driver sends nil as NULL, and the statements
// expect an empty array.
func Array[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
