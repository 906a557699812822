package app

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The start of a server continues after a connection to the database breaks.
func TestASessionThatEndsDoesNotEndTheStart(t *testing.T) {
	t.Parallel()
	cfg := postgres.DefaultConfig()
	cfg.URL = setting.Secret(pgtest.Database(t))
	pool, err := postgres.Open(t.Context(), cfg, "belfry", warmConnections)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pool.Ping(t.Context()))
	admin, err := pgx.Connect(t.Context(), cfg.URL.Reveal())
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(context.Background())) }()
	_, err = admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.NoError(t, err)
	b := builder{log: zap.NewNop(), startUntil: time.Now().Add(time.Minute)}
	require.NoError(t, b.retry(t.Context(), "again", func() error { return advanceIDs(t.Context(), pool, zap.NewNop()) }))
}
