package store_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A wake finds the same cursors among few groups and among many. Some are not ready although they have
// messages. Others wait only for a redriven message.
func TestAWakeFindsTheSameCursorsAmongManyGroups(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1500} {
		b := newBench(t)
		b.push("p", "m1", "m2")
		b.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
			SELECT q.id, n, true FROM belfry.queue q,
			       unnest(ARRAY['asleep', 'drained', 'ready', 'redriven', 'redriven, leased']
			              || ARRAY(SELECT 'other' || i FROM generate_series(1, $1::int) AS i)) AS n`, others)
		b.exec(`INSERT INTO belfry.cursor (partition_id, group_id, committed, ready_at, redrives, lease_id)
			SELECT p.id, g.id, CASE WHEN g.name = 'drained' THEN p.last_seq ELSE 0 END,
			       CASE WHEN g.name LIKE 'redriven%' THEN now() + interval '1 hour' WHEN g.name IN ('ready') OR g.name LIKE 'other%' THEN now() END,
			       CASE WHEN g.name LIKE 'redriven%' THEN 1 END, CASE WHEN g.name = 'redriven, leased' THEN gen_random_uuid() END
			  FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id`)
		b.exec(`INSERT INTO belfry.cursor (partition_id, group_id) SELECT p.id, 0 FROM belfry.partition p`) // its group was deleted
		rows, err := b.pool.Query(t.Context(), `SELECT g.name FROM belfry.wake_partitions(ARRAY(SELECT p.id FROM belfry.partition p)) AS w
			JOIN belfry.consumer_group g ON g.id = w.group_id ORDER BY 1`)
		require.NoError(t, err)
		woken, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Equal(t, []string{"asleep", "redriven"}, woken, "%d other groups", others)
		var left int
		b.scan(`SELECT count(*) FROM belfry.cursor WHERE group_id = 0 AND ready_at IS NULL`, nil, &left)
		require.Equal(t, 1, left, "the cursor of a deleted group is left alone")
	}
}

// A wake in a queue with 10,000 groups does not read the cursors that are ready.
func TestAWakeDoesNotReadReadyCursors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepStatistics()
	conn, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	wake := func(partition int64) int {
		var raw []byte
		row := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql.Query("engine/store/wake"), []int64{partition})
		require.NoError(t, row.Scan(&raw))
		var out []struct {
			Plan enginetest.Plan `json:"Plan"`
		}
		require.NoError(t, json.Unmarshal(raw, &out))
		return out[0].Plan.Hit + out[0].Plan.Read
	}
	wake(1) // plans are made while the tables are empty
	b.push("p", "m1")
	var partition int64
	b.scan(`SELECT id FROM belfry.partition`, nil, &partition)
	b.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
		SELECT q.id, 'g' || i, true FROM belfry.queue q, generate_series(1, 10000) AS i`)
	b.exec(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at)
		SELECT p.id, g.id, now() FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id`)
	// On average a queue has few groups.
	b.exec(`INSERT INTO belfry.queue (name) SELECT 'one' || i FROM generate_series(1, 5000) AS i`)
	b.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'g', true FROM belfry.queue q WHERE q.name LIKE 'one%'`)
	for _, statistics := range []string{"none", "analyzed"} {
		if statistics == "analyzed" {
			b.exec(`ANALYZE`)
		}
		wake(partition)                                                    // reads the catalog again
		require.Less(t, wake(partition), 400, "statistics %s", statistics) // it counts the groups up to 1,001
	}
}
