package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// insertMinute writes a minute of an instance: pushes and failures of the queue, deliveries and waiting requests of the group g.
func insertMinute(t *testing.T, pool *postgres.Pool, at time.Time, pid int, queueName string, n, failed int, parked string) {
	t.Helper()
	instance := fmt.Sprintf("00000000-0000-0000-0000-%012d", pid)
	for group, messages := range map[string]int{"": n, "g": 0} {
		_, err := pool.Exec(t.Context(), `INSERT INTO belfry.history SELECT (json_populate_record(NULL::belfry.history, json_object_agg(c.column_name,
			CASE c.column_name WHEN 'at' THEN to_json($1::timestamptz) WHEN 'minutes' THEN '1' WHEN 'instance' THEN to_json($2::text) WHEN 'queue' THEN to_json($3::text)
				WHEN 'consumer_group' THEN to_json($4::text) WHEN 'push_messages' THEN to_json($5::int) WHEN 'latency' THEN '[]'
				WHEN 'pop_messages' THEN to_json(CASE WHEN $4 = 'g' THEN $6::int ELSE 0 END) WHEN 'ack_failed' THEN to_json(CASE WHEN $4 = 'g' THEN $7::int ELSE 0 END)
				WHEN 'parked' THEN CASE WHEN $4 = 'g' THEN $8::json ELSE 'null' END
				WHEN 'depth' THEN 'null' WHEN 'oldest_at' THEN 'null' WHEN 'counted_at' THEN 'null' ELSE '0' END::json))).*
			FROM information_schema.columns c WHERE c.table_schema = 'belfry' AND c.table_name = 'history'`, at, instance, queueName, group, messages, n/2, failed, parked)
		require.NoError(t, err)
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO belfry.history_instance VALUES ($1, 1, $2::uuid, 'host', 6632, $3, 1, 1, 1, 1, 1, 1, 1, 1, 0) ON CONFLICT DO NOTHING`, at, instance, pid)
	require.NoError(t, err)
}

// The rates are those of the last finished minute, and the failures those of the last hour. The instance that delivers to a group
// serves it, and so does an instance with waiting requests.
func TestRecentCountsAndServingInstances(t *testing.T) {
	pool := openPool(t)
	last := lastMinute(time.Now())
	insertMinute(t, pool, last, 7, "orders", 120, 2, "null")
	insertMinute(t, pool, last, 8, "orders", 60, 1, "null")
	insertMinute(t, pool, last.Add(-30*time.Minute), 7, "orders", 1000, 3, "null")
	insertMinute(t, pool, last.Add(-31*time.Minute), 9, "orders", 1000, 0, "4")
	insertMinute(t, pool, last.Add(-32*time.Minute), 9, "orders", 0, 0, "6")
	insertMinute(t, pool, last.Add(-30*time.Minute), 6, "orders", 0, 0, "0")
	insertMinute(t, pool, last.Add(-2*time.Hour), 7, "old", 9, 9, "1")
	r := NewReader(pool, nil, nil)
	recent, err := r.Recent(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]Recent{"orders": {Pushed: 180, Delivered: 90, Failed: 6}}, recent)
	key := GroupOf{"orders", "g"}
	served, err := r.Served(t.Context(), []GroupOf{key, {"old", "g"}, {"none", "g"}})
	require.NoError(t, err)
	require.Equal(t, map[GroupOf]Served{key: {Delivered: 90, By: []Server{{"host", 7, 0}, {"host", 8, 0}, {"host", 9, 4}}}}, served)
}

// The names of queues select them, in the counts, the waiting requests and the latencies. One name of Queue wins.
func TestNamesSelectQueues(t *testing.T) {
	pool := openPool(t)
	last := lastMinute(time.Now())
	for i, name := range []string{"a", "b", "c"} {
		insertMinute(t, pool, last.Add(-time.Minute), 7+i, name, 10, 0, "1")
	}
	r, span := NewReader(pool, nil, nil), Range{From: last.Add(-time.Hour), To: last, Bucket: time.Minute}
	of := func(f Filter) (counted, parked []string) {
		buckets, err := r.Queues(t.Context(), span, f)
		require.NoError(t, err)
		for i := range buckets {
			counted = append(counted, buckets[i].Queue)
		}
		waiting, err := r.Parked(t.Context(), span, f)
		require.NoError(t, err)
		for _, one := range waiting {
			parked = append(parked, one.Queue)
		}
		slices.Sort(counted)
		slices.Sort(parked)
		return counted, parked
	}
	counted, parked := of(Filter{Queues: []string{"c", "a", "none"}})
	require.Equal(t, [][]string{{"a", "c"}, {"a", "c"}}, [][]string{counted, parked})
	one := "b"
	counted, parked = of(Filter{Queue: &one, Queues: []string{"a"}})
	require.Equal(t, [][]string{{"b"}, {"b"}}, [][]string{counted, parked})
	counted, _ = of(Filter{})
	require.Equal(t, []string{"a", "b", "c"}, counted)
}
