// Package pipeline sends several statements to Postgres in one round trip.
//
// A pipeline may open a transaction. After an error, the package rolls the transaction back, so a
// connection never leaves a failed pipeline with an open transaction. Other packages below
// pkg/engine/store import this package.
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

// SendFunc sends a pipeline on a connection that it chooses. It returns errors of read, of the
// connection, and of statements whose results read did not read.
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

// Confirmed returns a SendFunc like On, which also fails if the synchronous standbys did not
// confirm a commit (postgres.Confirmed).
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

// ConfirmedOn returns a SendFunc that calls SendConfirmed on conn.
func ConfirmedOn(conn *pgxpool.Conn) SendFunc {
	return func(ctx context.Context, b *pgx.Batch, read ReadFunc) error { return SendConfirmed(ctx, conn, b, read) }
}

// SendConfirmed calls Send, and also fails if the synchronous standbys did not confirm a commit (postgres.Confirmed).
// If a later statement fails too, it returns both errors.
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

// Rollback rolls back the open transaction of conn, if one is open. If the rollback fails, the pool
// drops the connection.
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

// ForEach reads one result. It scans each row into targets and then calls each. step names the
// statement in the error.
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
