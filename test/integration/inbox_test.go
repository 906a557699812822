package integration_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// producer opens a session for a client that uses SQL.
func producer(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

// A waiting pop must be woken even if another instance runs the sequencer.
func TestInsertWakesConsumersAtEveryInstance(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	one, two := startOn(t, dsn).client(t), startOn(t, dsn).client(t)
	for _, c := range []client{one, two, one} {
		waiting := c.begin(popCall("orders", "wait=true&timeout=30000&autoAck=true"))
		c.untilWaiting(1)
		execute(t, producer(t, dsn), `SELECT belfry.push('orders', '1')`)
		require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)
	}
	require.NoError(t, one.stop(t))
	waiting := two.begin(popCall("orders", "wait=true&timeout=30000&autoAck=true"))
	two.untilWaiting(1)
	execute(t, producer(t, dsn), `SELECT belfry.push('orders', '2')`)
	require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)
}

func TestPushWithADelayOverSQL(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	conn := producer(t, c.dsn)
	began := time.Now()
	execute(t, conn, `SELECT belfry.push('orders', '1', transaction_id => 'later', delay => '700 ms')`)
	until(t, "the message is stored", func() bool {
		var n int
		c.scan(t, "SELECT count(*) FROM belfry.message", nil, &n)
		return n == 1
	})
	require.Equal(t, []string{"later"}, c.popIDs("orders", "wait=true&timeout=30000&autoAck=true"))
	require.Greater(t, time.Since(began), 700*time.Millisecond)
}

// Without a notification, the scan after the fallback interval must find the message.
func TestTheFallbackFindsUnannouncedMessages(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *config.Config) { cfg.Dispatch.FallbackInterval = 300 * time.Millisecond }).client(t)
	conn := producer(t, c.dsn)
	execute(t, conn, "SET belfry.notify = off")
	execute(t, conn, `SELECT belfry.push('orders', '1', transaction_id => 'silent')`)
	require.Equal(t, []string{"silent"}, c.popIDs("orders", "wait=true&timeout=30000&autoAck=true"))
}

// The rows of a restored dump have transaction ids of Postgres (xid) from another cluster. This cluster has already used
// some of these ids, and will not use others for a long time. The sequencer must move all rows.
func TestRowsWithForeignTransactionIDsAreMoved(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	execute(t, producer(t, dsn), `INSERT INTO belfry.inbox (queue, transaction_id, payload, xid)
		SELECT 'q', n::text, '1', xid::xid8 FROM unnest(ARRAY['9000000000000000000', '3', '9000000000000000001', '4']) WITH ORDINALITY AS r(xid, n)`)
	c := startOn(t, dsn).client(t)
	require.Equal(t, []string{"1", "2", "3", "4"}, c.popIDs("q", "batch=10&wait=true&timeout=20000&autoAck=true"))
	execute(t, producer(t, dsn), `INSERT INTO belfry.inbox (queue, transaction_id, payload) VALUES ('q', '5', '1')`)
	require.Equal(t, []string{"5"}, c.popIDs("q", "batch=10&wait=true&timeout=20000&autoAck=true"))
}
