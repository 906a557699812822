package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A read of keys, of a prefix or of ripe windows does not read the other 30,000 keys, even without statistics.
func TestStateIsFoundByIndexes(t *testing.T) {
	t.Parallel()
	pool := enginetest.Pool(t, pgtest.Database(t))
	id := [16]byte(queue.NewID())
	var partition [16]byte
	require.NoError(t, pool.QueryRow(t.Context(), `WITH q AS (INSERT INTO belfry.queue (name) VALUES ('q') RETURNING id)
		INSERT INTO belfry.partition (queue_id, name) SELECT id, 'p' FROM q RETURNING uid`).Scan(&partition))
	enginetest.Exec(t, pool, `WITH s AS (INSERT INTO belfry.stream (uid, source, name, config_hash) VALUES ($1, 'q', 'n', 'h') RETURNING id)
		INSERT INTO belfry.stream_state (stream_id, partition_id, key, value, window_end, updated_at)
		SELECT s.id, p.id, 'k' || i, '{}', i, now() FROM s, belfry.partition p, generate_series(1, 30000) i`, id)
	for what, args := range map[string][]any{
		"keys":   {id, partition, []string{"k5", "k6", "none"}, nil, nil, nil},
		"prefix": {id, partition, nil, "k777", "k778", nil},
		"ripe":   {id, partition, nil, nil, nil, 3.0},
	} {
		var out []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		require.NoError(t, pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql.Query("engine/stream/state"), args...).Scan(&out))
		require.Less(t, out[0].Plan.Hit+out[0].Plan.Read, 100, what)
	}
}
