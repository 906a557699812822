package postgres_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// silentFirst returns the DSN of a database with one more host before its own. That host accepts connections and never answers,
// like the frozen primary of a cluster.
func silentFirst(t *testing.T, dsn string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	before, host, found := strings.Cut(dsn, "@")
	require.True(t, found)
	return before + "@" + listener.Addr().String() + "," + host
}

// Each way to connect has a time limit. A silent host must not use all of it.
func TestASilentHostLeavesTimeForTheOthers(t *testing.T) {
	dsn := silentFirst(t, database(t))
	const limit = 4 * time.Second
	t.Run("pool", func(t *testing.T) {
		t.Parallel()
		pool := open(t, config(dsn, func(c *postgres.Config) { c.RequestTimeout = limit }))
		require.NoError(t, pool.Ping(soon(t))) // the first connection also looks for a pooler
		pool.Reset()
		ctx, cancel := pool.Bounded(t.Context())
		defer cancel()
		require.NoError(t, pool.Ping(ctx))
		// The pool remembers that the first host is silent, and tries it last.
		pool.Reset()
		quick, end := context.WithTimeout(t.Context(), limit/4)
		defer end()
		require.NoError(t, pool.Ping(quick))
	})
	t.Run("pinger", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		require.NoError(t, newPinger(t, dsn).Ping(ctx))
		// A long connect_timeout is the limit of another kind of connection.
		require.NoError(t, newPinger(t, dsn+"&connect_timeout=60").Ping(ctx))
	})
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		parsed, err := postgres.ParseURL(dsn)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		conn, err := postgres.Connect(ctx, parsed, postgres.DirectKeys)
		require.NoError(t, err)
		require.NoError(t, conn.Close(ctx))
	})
}

func TestHostsShareTheConnectTimeout(t *testing.T) {
	for url, want := range map[string]time.Duration{
		"postgres://u@a/d?sslmode=disable":                       6 * time.Second,
		"postgres://u@a,b,c/d?sslmode=disable":                   2 * time.Second,
		"postgres://u@a,b,c/d":                                   2 * time.Second, // each host with and without TLS
		"postgres://u@a:1,a:2/d":                                 3 * time.Second,
		"postgres://u@a,b,c/d?sslmode=disable&connect_timeout=9": 9 * time.Second,
	} {
		parsed, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		postgres.ShareConnectTimeout(&parsed.Config, 6*time.Second)
		require.Equal(t, want, parsed.ConnectTimeout, url)
	}
}
