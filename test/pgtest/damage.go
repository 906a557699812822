package pgtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// DamagePayloads makes large payloads unreadable. Postgres stores such a payload outside of the row of the message: it is
// above 2 kB and does not compress well. Reading it fails with SQLSTATE XX001.
func DamagePayloads(t testing.TB, dsn string) {
	t.Helper()
	require.NoError(t, Damage(context.WithoutCancel(t.Context()), dsn))
}

// Damage does the same as DamagePayloads, for programs that are not tests.
func Damage(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var toast string
	err = conn.QueryRow(ctx, `SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'belfry.message'::regclass`).Scan(&toast)
	if err != nil {
		return fmt.Errorf("finding the table of large payloads: %w", err)
	}
	for _, statement := range []string{
		// Postgres refuses to change a TOAST table (relkind t), so the statements make it an ordinary table for a moment.
		`UPDATE pg_class SET relkind = 'r' WHERE oid = '` + toast + `'::regclass`,
		`DELETE FROM ` + toast,
		`UPDATE pg_class SET relkind = 't' WHERE oid = '` + toast + `'::regclass`,
		`VACUUM belfry.message`, // before the vacuum, Postgres still reads the deleted parts
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("running %q: %w", statement, err)
		}
	}
	return nil
}
