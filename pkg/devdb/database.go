package devdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// duplicateDatabase is the SQLSTATE of a name that exists; a concurrent creation
// may be seen as uniqueViolation instead.
const (
	duplicateDatabase = "42P04"
	uniqueViolation   = "23505"
)

// CreateDatabase makes a database unless it exists. The end of ctx breaks it
// off.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("creating the database %s: %w", name, err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == duplicateDatabase || refused.Code == uniqueViolation) {
		err = nil
	}
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("creating the database %s: %w", name, err)
	}
	return nil
}
