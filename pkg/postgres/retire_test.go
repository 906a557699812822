package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// When a primary becomes read only, the pool that notices and its related pools retire
// all connections to it. A connection younger than readOnlyAge does not retire
// anything: a new connection would lead to the same Postgres.
func TestConnectionsToAReadOnlyPrimaryAreRetired(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	pool := open(t, config(dsn))
	second := openRelated(t, pool, config(dsn))
	session := func(p *postgres.Pool) (pid int) {
		t.Helper()
		require.NoError(t, p.QueryRow(soon(t), "SELECT pg_backend_pid()").Scan(&pid))
		return pid
	}
	related := session(pool)
	began := time.Now()
	noticed := session(second)
	_, err := second.Exec(soon(t), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	for {
		_, err := second.Exec(soon(t), "CREATE TABLE public.t (n int)")
		if err == nil {
			break
		}
		require.Equal(t, "25006", postgres.SQLState(err), "%v", err)
	}
	require.Greater(t, time.Since(began), time.Second, "the connection was young")
	require.NotEqual(t, noticed, session(second))
	require.NotEqual(t, related, session(pool))
}
