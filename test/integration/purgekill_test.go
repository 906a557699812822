package integration_test

import (
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
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

// purge observes the purge of queue "big".
type purge struct {
	t            *testing.T
	conn, holder *pgx.Conn
	// bound is the longest time of a purge.
	bound time.Duration
	// old are the ids of the partitions of the deleted queue.
	old []int64
}

func (p *purge) exec(statement string, args ...any) {
	p.t.Helper()
	execute(p.t, p.conn, statement, args...)
}

// fill stores messages, cursors and dead letters in queue "big", which exists and has a group.
func (p *purge) fill(c child) {
	p.t.Helper()
	p.exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT id, 'p' || i, $2, now() FROM belfry.queue, generate_series(1, $1::int) i WHERE name = 'big'`,
		*purgePartitions, *purgeMessages / *purgePartitions)
	p.exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, s, now(), gen_random_uuid(), 't' || s, '{"a": 1}'
		  FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id, generate_series(1, p.last_seq) s WHERE q.name = 'big'`)
	p.exec(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at)
		SELECT p.id, g.id, now() FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id JOIN belfry.consumer_group g ON g.queue_id = q.id
		 WHERE q.name = 'big' AND p.name <> 'Default'`)
	require.Equal(p.t, []string{"t1"}, c.popIDs("big", "consumerGroup=g&autoAck=true"))
	p.exec(`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts)
		SELECT c.partition_id, 1, c.group_id, 3 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		  JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name IN ('big', 'other')`)
	p.exec("ANALYZE")
	rows, err := p.conn.Query(p.t.Context(), "SELECT p.id FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'big' ORDER BY p.id")
	require.NoError(p.t, err)
	p.old, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(p.t, err)
}

// left counts the rows of the deleted queue.
func (p *purge) left() (n int64) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), victims, p.old).Scan(&n))
	return n
}

// others returns a digest of all other rows.
func (p *purge) others() (digest string) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), bystanders, p.old).Scan(&digest))
	return digest
}

// stopAt makes the next purge block at a partition. kill waits for that and kills the server.
func (p *purge) stopAt(partition int64) (kill func(victim child)) {
	p.t.Helper()
	tx, err := p.holder.Begin(p.t.Context())
	require.NoError(p.t, err)
	_, err = tx.Exec(p.t.Context(), "SELECT FROM belfry.message WHERE partition_id = $1 FOR UPDATE", partition)
	require.NoError(p.t, err)
	return func(victim child) {
		var backend int
		began := time.Now()
		for backend == 0 {
			require.Less(p.t, time.Since(began), p.bound, "the purge did not get that far")
			require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM belfry.message%'`).Scan(&backend))
			p.exec("SELECT pg_sleep(0.01)")
		}
		require.NoError(p.t, victim.process.Kill())
		// The kernel would end the session later.
		p.exec("SELECT pg_terminate_backend($1, 60000)", backend)
		require.NoError(p.t, tx.Rollback(p.t.Context()))
	}
}

// TestKilledDuringPurge kills the server while it purges a deleted queue, and then the next server. The third one finishes
// the purge. Other queues keep every row, and the queue created again under the same name has only its own rows.
func TestKilledDuringPurge(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	// A message takes at most 1 ms, also on a busy machine.
	bound := patience + time.Duration(*purgeMessages)*time.Millisecond
	p := &purge{t: t, conn: producer(t, dsn), holder: producer(t, dsn), bound: bound}
	first := startChild(t, dsn, dsn)
	other := first.pushIDs("other", "p", "1", "2", "3")
	require.Equal(t, []string{"1"}, first.popIDs("other", "consumerGroup=g&autoAck=true"))
	first.configure("big", map[string]any{"retryLimit": 7}).ok(http.StatusOK)
	require.Empty(t, first.popIDs("big", "consumerGroup=g"))
	p.fill(first)

	whole := p.left()
	kill := p.stopAt(p.old[len(p.old)/3])
	require.True(t, first.deleteQueue("big").ok(http.StatusOK).Existed)
	// Created again during the purge.
	require.Equal(t, "queued", first.pushIDs("big", "p1", "t1")[0].Status, "the transaction id is free")
	require.Equal(t, []string{"t1"}, first.popIDs("big", "consumerGroup=g&batch=9&partitions=9&wait=true&timeout=20000"))
	kill(first)
	kept, afterFirst := p.others(), p.left()
	require.Positive(t, afterFirst)
	require.Less(t, afterFirst, whole)

	kill = p.stopAt(p.old[2*len(p.old)/3])
	kill(startChild(t, dsn, dsn))
	afterSecond := p.left()
	require.Positive(t, afterSecond)
	require.Less(t, afterSecond, afterFirst, "the second server continued")

	began := time.Now()
	last := startChild(t, dsn, dsn)
	t.Logf("%d rows, %d after the first kill, %d after the second; the third answers after %s",
		whole, afterFirst, afterSecond, time.Since(began).Round(time.Millisecond))
	for p.left() > 0 {
		require.Less(t, time.Since(began), bound, "the purge was not finished")
		p.exec("SELECT pg_sleep(0.05)")
	}
	t.Logf("purged %s after its start", time.Since(began).Round(time.Millisecond))
	require.Equal(t, kept, p.others())
	var limit, groups int
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT q.retry_limit, (SELECT count(*) FROM belfry.consumer_group g WHERE g.queue_id = q.id)
		FROM belfry.queue q WHERE q.name = 'big'`).Scan(&limit, &groups))
	require.EqualValues(t, config.Default().Defaults.RetryLimit, limit, "the options are the defaults")
	require.Equal(t, 1, groups)
	require.Equal(t, []string{"2", "3"}, last.popIDs("other", "consumerGroup=g&batch=9"))
	require.NotEmpty(t, other)
}
