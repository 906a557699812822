package sweep

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Rows for minutes become rows for hours with the same sums, each instance and group by itself, when all of
// the hour is old. Older rows than history.retention are deleted.
func TestOldHistoryIsRolledUpAndDeleted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(c *Config) { c.HistoryMinutes, c.HistoryRetention = 26*time.Hour, 90*24*time.Hour })
	r.exec(`INSERT INTO belfry.history_instance SELECT m, 1, i::uuid, 'h', 1, 1, 10, 1, 1, 1, 1, 1, 1, 1, 1
		FROM generate_series(date_trunc('hour', now() - interval '28 hours'), now(), '7 minutes') m,
		     unnest(ARRAY['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002']) i`)
	r.exec(`INSERT INTO belfry.history SELECT i.at, 1, i.instance, q, g, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
		16, extract(minute FROM i.at), 18, ARRAY[(3::bigint << 40) + 5, ((extract(minute FROM i.at)::bigint) << 40) + 1], 7
		FROM belfry.history_instance i, unnest(ARRAY['a', 'b']) q, unnest(ARRAY['', 'g']) g`)
	r.exec(`INSERT INTO belfry.history SELECT now() - interval '91 days' + i * interval '1 day', 60, gen_random_uuid(), 'q', '', 1, 2, 3, 4, 5, 6, 7, 8, 9,
		10, 11, 12, 13, 14, 15, 16, 17, 18, '{}', NULL FROM generate_series(-5001, 2) i`)
	const sums = `SELECT sum(push_requests + push_messages + pop_requests + pop_messages + pop_empty + ack_requests + ack_success + ack_failed
		+ dead_letters + transactions + partitions_created + partitions_deleted + removed_retention + removed_completed + removed_evicted
		+ lag_sum + lag_count)::bigint FROM belfry.history WHERE queue <> 'q'`
	const histogram = `SELECT sum(e & ((1::bigint << 40) - 1))::bigint FROM belfry.history, unnest(latency) e WHERE queue <> 'q'`
	before, counted := r.number(sums), r.number(histogram)
	r.sweep(r.history())

	require.Equal(t, before, r.number(sums))
	require.Equal(t, counted, r.number(histogram))
	require.EqualValues(t, 1, r.number(`SELECT count(*) FROM belfry.history WHERE queue = 'q'`), "the newest is kept")
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = 1 AND at < now() - interval '27 hours'`))
	require.NotZero(t, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = 1`))
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.history h WHERE NOT EXISTS
		(SELECT 1 FROM belfry.history_instance i WHERE (i.at, i.minutes, i.instance) = (h.at, h.minutes, h.instance)) AND h.queue <> 'q'`))
	rows, err := r.pool.Query(t.Context(), `SELECT push_requests, lag_max, cardinality(latency), parked, count(*)
		FROM belfry.history WHERE minutes = 60 AND queue <> 'q' AND at = date_trunc('hour', now() - interval '28 hours') GROUP BY 1, 2, 3, 4`)
	require.NoError(t, err)
	type hour struct{ Requests, Max, Buckets, Parked, Rows int64 }
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[hour])
	require.NoError(t, err)
	require.Equal(t, []hour{{Requests: 9, Max: 56, Buckets: 10, Parked: 7, Rows: 8}}, found)
}
