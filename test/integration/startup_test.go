package integration_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestTenInstancesAtOnce starts ten instances at the same time on a database without a schema.
func TestTenInstancesAtOnce(t *testing.T) {
	t.Parallel()
	const instances = 10
	dsn := pgtest.DatabaseWithoutSchema(t)
	servers := make([]*server, instances)
	for i := range servers {
		servers[i] = launch(t, dsn, func(cfg *config.Config) { cfg.Database.PoolSize = 2 })
	}
	for _, s := range servers {
		s.ready(t)
	}
	want := []string{}
	for i, s := range servers {
		c := s.client(t)
		require.Equal(t, http.StatusOK, ask[any](c, get("/health")).Status)
		id := fmt.Sprint(i)
		require.Equal(t, "queued", c.pushIDs("q", "", id)[0].Status)
		want = append(want, id)
	}
	for _, s := range servers {
		c := s.client(t)
		d := c.pop("q", "batch=100").ok(http.StatusOK)
		require.Equal(t, want, d.ids(), "each instance must deliver all messages in order")
		require.True(t, c.ackBatch("", d.ack("retry", 0)...).ok(http.StatusOK)[0].released())
	}
	var schemas, versions, queues int
	var dirty bool
	servers[0].scan(t, `SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'belfry'),
	       (SELECT count(*) FROM belfry.schema_migrations), (SELECT bool_or(dirty) FROM belfry.schema_migrations),
	       (SELECT count(*) FROM belfry.queue)`, nil, &schemas, &versions, &dirty, &queues)
	require.Equal(t, []int{1, 1, 1}, []int{schemas, versions, queues})
	require.False(t, dirty)
}

// If a connection breaks between the first ping and the end of the migration, the start must still succeed.
func TestTheStartSurvivesABrokenConnection(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	proxy, through := pgproxy.New(t, dsn)
	working, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	breaking, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	broken := make(chan error, 1)
	go func() {
		conn, err := breaking.Accept()
		if err == nil {
			proxy.Retarget(net.JoinHostPort(working.Host, strconv.Itoa(int(working.Port))))
			err = errors.Join(conn.Close(), breaking.Close())
		}
		broken <- err
	}()
	proxy.Retarget(breaking.Addr().String())
	startOn(t, dsn, func(cfg *config.Config) { cfg.Database.ListenURL = setting.Secret(through) }) // the migration uses this URL
	require.NoError(t, <-broken)
}
