package bench

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// watchLocks reports a wait of more than 100 ms, and holds a snapshot until the watch ends.
func TestWatchLocks(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	holder, waiter := connect(), connect()
	end, err := watchLocks(t.Context(), url, true)
	require.NoError(t, err)
	snapshots := func() (n int) {
		row := holder.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction' AND backend_xmin IS NOT NULL`)
		require.NoError(t, row.Scan(&n))
		return n
	}
	require.Equal(t, 1, snapshots())

	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(1)`)
	require.NoError(t, err)
	_, err = waiter.Exec(t.Context(), `SET lock_timeout = '500ms'`)
	require.NoError(t, err)
	_, err = waiter.Exec(t.Context(), `SELECT pg_advisory_lock(1)`)
	require.ErrorContains(t, err, "lock timeout")

	locks, err := end()
	require.NoError(t, err)
	require.Positive(t, locks.Long)
	require.Greater(t, locks.LongestMS, 100.0)
	require.Less(t, locks.LongestMS, 600.0)
	require.Zero(t, locks.Deadlocks)
	require.Eventually(t, func() bool { return snapshots() == 0 }, 30*time.Second, 10*time.Millisecond)
}
