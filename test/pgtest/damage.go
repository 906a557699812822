package pgtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// DamagePayloads makes every message unreadable whose payload Postgres stores outside of its row, which
// are the payloads above 2 kB that do not compress well. Reading one fails with SQLSTATE XX001.
func DamagePayloads(t testing.TB, dsn string) {
	t.Helper()
	require.NoError(t, Damage(context.WithoutCancel(t.Context()), dsn))
}

// Damage is DamagePayloads for programs that are not tests.
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
		// Postgres refuses to change the rows of a table of kind t.
		`UPDATE pg_class SET relkind = 'r' WHERE oid = '` + toast + `'::regclass`,
		`DELETE FROM ` + toast,
		`UPDATE pg_class SET relkind = 't' WHERE oid = '` + toast + `'::regclass`,
		`VACUUM belfry.message`, // until then, Postgres reads deleted parts
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("running %q: %w", statement, err)
		}
	}
	return nil
}
