package devdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CREATE DATABASE fails with duplicateDatabase if the name exists. A concurrent creation
// can fail with uniqueViolation instead.
const (
	duplicateDatabase = "42P04"
	uniqueViolation   = "23505"
)

// CreateDatabase creates a database unless it exists. The end of ctx cancels it.
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
