package integration_test

import (
	"context"
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// The size of the queue of TestKilledDuringPurge: small in CI, configurable otherwise:
//
//	go test ./test/integration -run TestKilledDuringPurge -v -purge-messages 1000000 -purge-partitions 100000
var (
	purgeMessages   = flag.Int("purge-messages", 12_000, "messages of the queue that is purged")
	purgePartitions = flag.Int("purge-partitions", 1200, "partitions of the queue that is purged")
)

// victims counts the rows of the deleted queue, by the ids of its partitions.
const victims = `SELECT
	(SELECT count(*) FROM belfry.queue WHERE deleted_at IS NOT NULL) + (SELECT count(*) FROM belfry.partition WHERE id = ANY ($1)) +
	(SELECT count(*) FROM belfry.message WHERE partition_id = ANY ($1)) + (SELECT count(*) FROM belfry.cursor WHERE partition_id = ANY ($1)) +
	(SELECT count(*) FROM belfry.dead_letter WHERE partition_id = ANY ($1)) + (SELECT count(*) FROM belfry.trace WHERE partition_id = ANY ($1))`

// bystanders is a digest of all other rows.
const bystanders = `SELECT md5(concat(
	(SELECT string_agg(r::text, ',' ORDER BY id) FROM belfry.queue r WHERE deleted_at IS NULL),
	(SELECT string_agg(r::text, ',' ORDER BY id) FROM belfry.partition r WHERE id <> ALL ($1)),
	(SELECT string_agg(r::text, ',' ORDER BY partition_id, seq) FROM belfry.message r WHERE partition_id <> ALL ($1)),
	(SELECT string_agg(r::text, ',' ORDER BY r.id) FROM belfry.consumer_group r JOIN belfry.queue q ON q.id = r.queue_id WHERE q.deleted_at IS NULL),
	(SELECT string_agg(r::text, ',' ORDER BY partition_id, group_id) FROM belfry.cursor r WHERE partition_id <> ALL ($1)),
	(SELECT string_agg(r::text, ',' ORDER BY id) FROM belfry.dead_letter r WHERE partition_id <> ALL ($1))))`

// TestKilledDuringPurge kills the server while it purges a deleted queue, and then the next server. The third one
// finishes the purge. Other queues keep every row, and the queue created again under the same name has only its own
// rows.
func TestKilledDuringPurge(t *testing.T) {
	t.Parallel()
	// A message takes at most 1 ms, also on a busy machine.
	bound := patience + time.Duration(*purgeMessages)*time.Millisecond
	dsn := pgtest.Database(t)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // its work is done
		return conn
	}
	conn, holder := connect(), connect()
	exec := func(statement string, args ...any) {
		t.Helper()
		_, err := conn.Exec(t.Context(), statement, args...)
		require.NoError(t, err)
	}
	first := startChild(t, dsn, dsn)
	other := first.pushIDs("other", "p", "1", "2", "3")
	require.Equal(t, []string{"1"}, first.popIDs("other", "consumerGroup=g&autoAck=true"))
	first.configure("big", map[string]any{"retryLimit": 7}).ok(http.StatusOK)
	require.Empty(t, first.popIDs("big", "consumerGroup=g"))
	exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT id, 'p' || i, $2, now() FROM belfry.queue, generate_series(1, $1::int) i WHERE name = 'big'`,
		*purgePartitions, *purgeMessages / *purgePartitions)
	exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, s, now(), gen_random_uuid(), 't' || s, '{"a": 1}'
		  FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id, generate_series(1, p.last_seq) s WHERE q.name = 'big'`)
	exec(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at)
		SELECT p.id, g.id, now() FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id JOIN belfry.consumer_group g ON g.queue_id = q.id
		 WHERE q.name = 'big' AND p.name <> 'Default'`)
	require.Equal(t, []string{"t1"}, first.popIDs("big", "consumerGroup=g&autoAck=true"))
	exec(`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts)
		SELECT c.partition_id, 1, c.group_id, 3 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		  JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name IN ('big', 'other')`)
	exec("ANALYZE")
	rows, err := conn.Query(t.Context(), "SELECT p.id FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'big' ORDER BY p.id")
	require.NoError(t, err)
	old, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	left := func() (n int64) {
		require.NoError(t, conn.QueryRow(t.Context(), victims, old).Scan(&n))
		return n
	}
	rest := func() (digest string) {
		require.NoError(t, conn.QueryRow(t.Context(), bystanders, old).Scan(&digest))
		return digest
	}

	// stopAt makes the next purge block in the middle. Then the server is killed.
	stopAt := func(partition int64) (kill func(victim child)) {
		tx, err := holder.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT FROM belfry.message WHERE partition_id = $1 FOR UPDATE", partition)
		require.NoError(t, err)
		return func(victim child) {
			var backend int
			began := time.Now()
			for backend == 0 {
				require.Less(t, time.Since(began), bound, "the purge did not get that far")
				require.NoError(t, conn.QueryRow(t.Context(), `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM belfry.message%'`).Scan(&backend))
				exec("SELECT pg_sleep(0.01)")
			}
			require.NoError(t, victim.process.Kill())
			// The kernel would end the session later.
			exec("SELECT pg_terminate_backend($1, 60000)", backend)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
	whole := left()
	kill := stopAt(old[len(old)/3])
	require.True(t, first.deleteQueue("big").ok(http.StatusOK).Existed)
	// Created again during the purge.
	require.Equal(t, "queued", first.pushIDs("big", "p1", "t1")[0].Status, "the transaction id is free")
	require.Equal(t, []string{"t1"}, first.popIDs("big", "consumerGroup=g&batch=9&partitions=9&wait=true&timeout=20000"))
	kill(first)
	kept, afterFirst := rest(), left()
	require.Positive(t, afterFirst)
	require.Less(t, afterFirst, whole)

	kill = stopAt(old[2*len(old)/3])
	kill(startChild(t, dsn, dsn))
	afterSecond := left()
	require.Positive(t, afterSecond)
	require.Less(t, afterSecond, afterFirst, "the second server continued")

	began := time.Now()
	last := startChild(t, dsn, dsn)
	t.Logf("%d rows, %d after the first kill, %d after the second; the third answers after %s",
		whole, afterFirst, afterSecond, time.Since(began).Round(time.Millisecond))
	for left() > 0 {
		require.Less(t, time.Since(began), bound, "the purge was not finished")
		exec("SELECT pg_sleep(0.05)")
	}
	t.Logf("all gone %s after its start", time.Since(began).Round(time.Millisecond))
	require.Equal(t, kept, rest())
	var limit, groups int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT q.retry_limit, (SELECT count(*) FROM belfry.consumer_group g WHERE g.queue_id = q.id)
		FROM belfry.queue q WHERE q.name = 'big'`).Scan(&limit, &groups))
	require.Equal(t, 3, limit, "the options are the defaults")
	require.Equal(t, 1, groups)
	require.Equal(t, []string{"2", "3"}, last.popIDs("other", "consumerGroup=g&batch=9"))
	require.NotEmpty(t, other)
}
