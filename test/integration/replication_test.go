package integration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// publish creates the databases publisher and subscriber, and a publication of all tables of publisher. It returns a
// connection to publisher.
func publish(t *testing.T, cluster *devdb.Cluster) *pgx.Conn {
	t.Helper()
	require.NoError(t, cluster.CreateDatabase(t.Context(), "publisher"))
	require.NoError(t, cluster.CreateDatabase(t.Context(), "subscriber"))
	execute(t, producer(t, cluster.URL("publisher")), `ALTER SYSTEM SET wal_level = logical`)
	require.NoError(t, cluster.Stop(t.Context()))
	require.NoError(t, cluster.Restart(t.Context()))
	publisher := producer(t, cluster.URL("publisher"))
	execute(t, publisher, `CREATE PUBLICATION every FOR ALL TABLES`)
	return publisher
}

// emptySchema creates the schema and removes all its rows.
func emptySchema(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	require.NoError(t, startOn(t, dsn).stop(t))
	conn := producer(t, dsn)
	var tables []string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT array_agg(oid::regclass) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'belfry'::regnamespace`).Scan(&tables))
	execute(t, conn, `TRUNCATE `+strings.Join(tables, ", ")+` RESTART IDENTITY`)
	return conn
}

// TestAPublicationOfAllTables moves the data to another database by logical replication. Teams do this to change the
// version or the host of Postgres. Tools such as Debezium use the same kind of publication. So each verb must work while
// such a publication exists.
func TestAPublicationOfAllTables(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	publisher := publish(t, cluster)
	s := startOn(t, cluster.URL("publisher"))
	c := s.client(t)

	c.pushIDs("q", "read", "1", "2", "3")
	read := c.popPartition("q", "read", "consumerGroup=g&batch=1").ok(http.StatusOK)
	require.True(t, c.ackBatch("g", read.ack("completed", 0)...).ok(http.StatusOK)[0].Success)
	c.pushIDs("q", "failed", "4")
	failed := c.popPartition("q", "failed", "consumerGroup=g").ok(http.StatusOK)
	require.True(t, c.ackBatch("g", failed.ack("failed", 0)...).ok(http.StatusOK)[0].Success)
	c.pushIDs("gone", "p", "0")
	require.Equal(t, []string{"0"}, c.popPartition("gone", "p", "consumerGroup=g").ok(http.StatusOK).ids())

	// The subscriber has the schema without rows, as after pg_dump --schema-only.
	subscriber := emptySchema(t, cluster.URL("subscriber"))
	execute(t, publisher, `SELECT pg_create_logical_replication_slot('moving', 'pgoutput')`)
	execute(t, subscriber, `CREATE SUBSCRIPTION moving CONNECTION '`+cluster.URL("publisher")+`' PUBLICATION every WITH (create_slot = false)`)
	holds := func(what string, condition string, args ...any) {
		t.Helper()
		until(t, what, func() bool {
			var held bool
			require.NoError(t, publisher.QueryRow(t.Context(), `SELECT coalesce((`+condition+`), false)`, args...).Scan(&held))
			return held
		})
	}
	until(t, "all tables are copied", func() bool {
		var copied bool
		require.NoError(t, subscriber.QueryRow(t.Context(), `SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel`).Scan(&copied))
		return copied
	})

	// These changes happen while the subscriber follows.
	read = c.popPartition("q", "read", "consumerGroup=g&batch=1").ok(http.StatusOK)
	require.True(t, c.ackBatch("g", read.ack("completed", 0)...).ok(http.StatusOK)[0].Success)
	c.pushIDs("q", "read", "5")
	require.True(t, c.deleteQueue("gone").ok(http.StatusOK).Deleted)
	holds("the deleted queue is purged", `SELECT count(*) = 2 FROM belfry.partition`)
	require.NoError(t, s.stop(t))
	execute(t, publisher, `INSERT INTO belfry.inbox (queue, partition, transaction_id, payload) VALUES ('q', 'inbox', '6', '1')`)
	var end string
	require.NoError(t, publisher.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn()::text`).Scan(&end))
	holds("the subscriber has all changes", `SELECT confirmed_flush_lsn >= $1::pg_lsn FROM pg_replication_slots WHERE slot_name = 'moving'`, end)
	execute(t, subscriber, `DROP SUBSCRIPTION moving`)

	// Another session holds the lock of the sequencer. So only the start of the server can set the next ids.
	sequencer := producer(t, cluster.URL("subscriber"))
	execute(t, sequencer, `SELECT pg_advisory_lock(x'42454c46'::int, 7)`)
	moved := startOn(t, cluster.URL("subscriber")).client(t)
	moved.pushIDs("new", "new", "8")
	require.NoError(t, sequencer.Close(t.Context()))
	require.Equal(t, []string{"8"}, moved.popPartition("new", "new", "consumerGroup=g").ok(http.StatusOK).ids())
	require.Equal(t, []string{"3", "5"}, moved.popPartition("q", "read", "consumerGroup=g&batch=10").ok(http.StatusOK).ids())
	require.Equal(t, []string{"4"}, moved.popPartition("q", "failed", "consumerGroup=g&wait=true&timeout=20000").ok(http.StatusOK).ids())
	require.Equal(t, []string{"6"}, moved.popPartition("q", "inbox", "consumerGroup=g&wait=true&timeout=20000").ok(http.StatusOK).ids())
	execute(t, subscriber, `INSERT INTO belfry.inbox (queue, partition, transaction_id, payload) VALUES ('q', 'later', '7', '1')`)
	require.Equal(t, []string{"7"}, moved.popPartition("q", "later", "consumerGroup=g&wait=true&timeout=20000").ok(http.StatusOK).ids())
	var twice int
	require.NoError(t, subscriber.QueryRow(t.Context(), `SELECT count(*) - count(DISTINCT id) FROM belfry.partition`).Scan(&twice))
	require.Zero(t, twice)
}
