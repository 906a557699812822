package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func newPinger(t *testing.T, dsn string) *postgres.Pinger {
	t.Helper()
	p, err := postgres.NewPinger(config(dsn), "belfry-ping")
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// A pool without a free connection does not delay a ping. All pings use one connection, and replace it
// when it is lost.
func TestPingerHasAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	pool := open(t, config(dsn, func(cfg *postgres.Config) { cfg.PoolSize = 1 }))
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	p := newPinger(t, dsn)
	pings := func(query string) (n int) {
		t.Helper()
		require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	const all = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'belfry-ping'`
	require.Zero(t, pings(all), "no ping, no connection")
	done := make(chan error)
	for range 10 {
		go func() { done <- p.Ping(soon(t)) }()
	}
	for range 10 {
		require.NoError(t, <-done)
	}
	require.Equal(t, 1, pings(all))
	require.Equal(t, 1, pings(`SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE application_name = 'belfry-ping'`))
	require.NoError(t, p.Ping(soon(t)), "a lost connection is no failure of the database")
}

func TestPingOfAnAbsentDatabaseFails(t *testing.T) {
	t.Parallel()
	p := newPinger(t, "postgres://u@"+unusedAddress(t)+"/d?sslmode=disable")
	require.Error(t, p.Ping(soon(t)))

	silent, _ := refusing(t, "")
	p = newPinger(t, "postgres://u@"+silent+"/d?sslmode=disable")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Ping(ctx), context.DeadlineExceeded)

	_, err := postgres.NewPinger(config("postgres://u@h:port/d"), "x")
	require.ErrorContains(t, err, "database.url")
}
