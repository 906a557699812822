package store_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// The measurement of a queue reads the partitions with waiting messages, and not the others.
func TestAMeasurementReadsNoDrainedPartition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.drained(20_000, 2)
	b.option("max_size = 100")
	b.push("p7", "a", "b")
	b.push("new", "c")
	var explained []struct {
		Plan enginetest.Plan `json:"Plan"`
	}
	var depth, limit int
	var unread bool
	var id int64
	b.scan(`SELECT id FROM belfry.queue`, nil, &id)
	b.scan(sql.Query("engine/store/queue_depth"), []any{id}, &limit, &depth, &unread)
	require.Equal(t, 3, depth)
	require.False(t, unread)
	var raw []byte
	b.scan("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql.Query("engine/store/queue_depth"), []any{id}, &raw)
	require.NoError(t, json.Unmarshal(raw, &explained))
	require.Less(t, explained[0].Plan.Hit+explained[0].Plan.Read, 200)
	b.exec(`UPDATE belfry.consumer_group SET paused = true WHERE name = 'g1'`)
	b.scan(sql.Query("engine/store/queue_depth"), []any{id}, &limit, &depth, &unread)
	require.Equal(t, 3, depth, "a paused group")
	require.False(t, unread)
	b.exec(`UPDATE belfry.partition SET paused = true WHERE name = 'p7'`)
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL WHERE partition_id = (SELECT id FROM belfry.partition WHERE name = 'p7')`)
	b.scan(sql.Query("engine/store/queue_depth"), []any{id}, &limit, &depth, &unread)
	require.Equal(t, 3, depth, "a paused partition")
}
