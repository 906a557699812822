package totals_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// large fills a database with 10,000 queues of 20 partitions and 100 messages, 15,000 groups and 50,000 dead letters. In each fifth
// partition the groups are behind.
const large = `
INSERT INTO belfry.queue (name) SELECT 'queue-' || lpad(i::text, 5, '0') FROM generate_series(1, 10000) i;
INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'billing', true FROM belfry.queue q;
INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'mail', true FROM belfry.queue q WHERE q.id % 2 = 0;
INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at) SELECT q.id, 'p' || i, 5, now() FROM generate_series(1, 20) i, belfry.queue q;
INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
     SELECT p.id, s, now() - make_interval(secs => 600 - s), gen_random_uuid(), 't' || s, '1' FROM belfry.partition p, generate_series(1, 5) s;
INSERT INTO belfry.cursor (partition_id, group_id, committed, ready_at)
     SELECT p.id, g.id, CASE WHEN p.id % 5 = 0 THEN 2 ELSE 5 END, CASE WHEN p.id % 5 = 0 THEN now() END
       FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id;
INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
     SELECT p.id, s, g.id, 8, 'timeout' FROM (SELECT * FROM belfry.partition p ORDER BY p.id LIMIT 25000) p
       JOIN belfry.consumer_group g ON g.queue_id = p.queue_id AND g.name = 'billing', generate_series(1, 2) s;
ANALYZE`

// BenchmarkAPass counts a large database: go test ./pkg/insight/totals -run none -bench Pass
func BenchmarkAPass(b *testing.B) {
	pool := enginetest.Pool(b, enginetest.Database(b))
	conn := enginetest.Connect(b, pool.Config().ConnString())
	_, err := conn.PgConn().Exec(b.Context(), large).ReadAll()
	require.NoError(b, err)
	for b.Loop() {
		s, err := totals.New(pool, time.Minute).Fresh(b.Context(), 0)
		require.NoError(b, err)
		require.EqualValues(b, 50_000, s.Sum(func(*totals.Queue) bool { return true }).DeadLetters)
		b.ReportMetric(float64(len(s.Queues)), "queues")
	}
}
