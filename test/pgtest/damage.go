package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// DamagePayloads makes every message unreadable whose payload Postgres stores outside of its row, which
// are the payloads above 2 kB that do not compress well. Reading one fails with SQLSTATE XX001.
func DamagePayloads(t testing.TB, dsn string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	var toast string
	require.NoError(t, conn.QueryRow(ctx,
		`SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'belfry.message'::regclass`).Scan(&toast))
	for _, statement := range []string{
		// Postgres refuses to change the rows of a table of kind t.
		`UPDATE pg_class SET relkind = 'r' WHERE oid = '` + toast + `'::regclass`,
		`DELETE FROM ` + toast,
		`UPDATE pg_class SET relkind = 't' WHERE oid = '` + toast + `'::regclass`,
		`VACUUM belfry.message`, // until then, Postgres reads deleted parts
	} {
		_, err := conn.Exec(ctx, statement)
		require.NoError(t, err, statement)
	}
}
