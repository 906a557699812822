package integration_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestAFullNotificationQueueFailsNoTransaction fills the notification queue of Postgres: a session listens and never ends
// its transaction. Then every transaction that sends a notification fails. Transactions of producers and consumers in SQL
// must not fail, because they must send none when the queue is almost full.
func TestAFullNotificationQueueFailsNoTransaction(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	require.NoError(t, cluster.CreateDatabase(t.Context(), "full"))
	app := producer(t, cluster.URL("full"))
	var bounded bool
	require.NoError(t, app.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int >= 170000`).Scan(&bounded))
	if bounded {
		execute(t, app, `ALTER SYSTEM SET max_notify_queue_pages = 64`)
		require.NoError(t, cluster.Stop(t.Context()))
		require.NoError(t, cluster.Restart(t.Context()))
		app = producer(t, cluster.URL("full"))
	}
	s := startOn(t, cluster.URL("full"), proven, func(c *config.Config) { c.Dispatch.FallbackInterval = 300 * time.Millisecond })
	c := s.client(t)
	execute(t, app, `CREATE TABLE t (id int PRIMARY KEY)`)
	execute(t, app, `SELECT belfry.attach('t', 'q', key => '{id}')`)
	c.pushIDs("q", "sql", "1")

	stuck := producer(t, cluster.URL("full"))
	if bounded {
		execute(t, stuck, `LISTEN team`)
		execute(t, stuck, `BEGIN`)
		execute(t, stuck, `SELECT 1`)
		full := func() bool {
			_, err := app.Exec(t.Context(), `SELECT pg_notify('team', $1)`, strings.Repeat("x", 7000))
			return err != nil
		}
		until(t, "the notification queue is full", full)
	} else { // before Postgres 17 the queue has 8 GB, too much for a test, so the usage is faked
		execute(t, stuck, `CREATE OR REPLACE FUNCTION pg_catalog.pg_notification_queue_usage() RETURNS float8 LANGUAGE sql AS 'SELECT 0.98::float8'`)
		execute(t, stuck, `LISTEN belfry; LISTEN belfry_inbox`)
	}

	execute(t, app, `INSERT INTO belfry.inbox (queue, partition, transaction_id, payload) VALUES ('q', 'inbox', '2', '1')`)
	execute(t, app, `INSERT INTO t VALUES (3)`)
	execute(t, app, `SELECT belfry.ack(lease) FROM belfry.pop('q', partition => 'sql')`)
	if !bounded {
		execute(t, stuck, `SELECT pg_notify('belfry', 'the end')`)
		for {
			heard, err := stuck.WaitForNotification(t.Context())
			require.NoError(t, err)
			require.NotEqual(t, app.PgConn().PID(), heard.PID, heard.Payload)
			if heard.Payload == "the end" {
				break
			}
		}
	}
	require.Equal(t, []string{"2"}, c.popPartition("q", "inbox", "wait=true&timeout=20000").ok(http.StatusOK).ids())
	require.Len(t, c.popPartition("q", "3", "wait=true&timeout=20000").ok(http.StatusOK).Messages, 1)
}
