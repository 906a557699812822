package app_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// Before a server answers, it runs the hot statements on its connections, and its listener is proven. If the proof takes long,
// the server answers before the listener is proven. In this test only a slow machine delays the proof so long.
func TestServerIsWarmBeforeItAnswers(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	cfg := config.Default()
	cfg.Database.URL, cfg.HTTP.Addr, cfg.HTTP.DrainDelay = setting.Secret(dsn), "127.0.0.1:0", 0
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var status struct {
		Listener struct {
			State string `json:"state"`
		} `json:"listener"`
	}
	watch := stopwatch.Start(t)
	err = app.Run(ctx, cfg, zap.NewNop(), func(addr net.Addr) {
		defer stop()
		resp, err := http.Get("http://" + addr.String() + "/api/v1/status/dispatcher") //nolint:noctx // the end of the server ends the request
		if !assertNoError(t, err) {
			return
		}
		assertNoError(t, json.NewDecoder(resp.Body).Decode(&status))
		assertNoError(t, resp.Body.Close())
	})
	require.NoError(t, err)
	if lost := watch.Allowed(0); lost < time.Second {
		require.Equal(t, "proven", status.Listener.State)
	}
	// Each connection pushed two messages, in a transaction that it rolled back.
	connections := 4 + cfg.Dispatch.PollWorkers + 1
	require.Eventually(t, func() bool {
		var inserted int
		require.NoError(t, conn.QueryRow(t.Context(),
			"SELECT coalesce(sum(n_tup_ins), 0) FROM pg_stat_user_tables WHERE schemaname = 'belfry' AND relname = 'message'").Scan(&inserted))
		return inserted == 2*connections
	}, 30*time.Second, 10*time.Millisecond)
}
