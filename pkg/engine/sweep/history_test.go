package sweep

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/history"
)

// The history counts what sweeps remove, by queue.
func TestTheHistoryCountsWhatSweepsRemove(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("p", 3)
	r.push("other", 2)
	r.consume("g", 5)
	r.age("p", 3)
	r.age("other", 2)
	r.options(completedHalfAnHour)
	r.sweep(r.retention())
	r.idle()
	r.sweep(r.partitions())
	got := r.counted.Totals()
	require.Len(t, got, 1)
	require.Equal(t, history.Counts{RemovedCompleted: 5, PartitionsDeleted: 2}, got["q"])
	r.push("p", 4)
	r.age("p", 4)
	r.options("retention_enabled = true, retention_seconds = 1800")
	r.sweep(r.retention())
	require.EqualValues(t, 4, r.counted.Totals()["q"].RemovedRetention)
}

// Old rows are added up to rows for 15 minutes, an hour and 6 hours with the same sums, each instance and group by
// itself, when all of that time is old. Older rows than history.retention are deleted.
func TestOldHistoryIsRolledUpAndDeleted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(c *Config) { c.HistoryRetention = 90 * 24 * time.Hour })
	r.exec(`INSERT INTO belfry.history_instance SELECT date_trunc('hour', now() - h * interval '1 hour') + m * interval '1 minute', 1, i::uuid,
		'h', 1, 1, 10, 1, 1, 1, 1, 1, 1, 1, 1
		FROM unnest(ARRAY[28, 8, 0]) h, generate_series(0, 56, 7) m, unnest(ARRAY['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002']) i`)
	r.exec(`INSERT INTO belfry.history_instance SELECT date_bin('6 hours', now() - interval '10 days', 'epoch') + h * interval '1 hour', 60,
		'00000000-0000-4000-8000-000000000001', 'h', 1, 1, 10, 1, 1, 1, 1, 1, 1, 1, 1 FROM generate_series(0, 11) h`)
	r.exec(`INSERT INTO belfry.history SELECT i.at, i.minutes, i.instance, q, g, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
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
	for minutes, age := range map[int]string{1: "6 hours 45 minutes", 15: "27 hours", 60: "8 days 6 hours"} {
		require.Zero(t, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = $1 AND at < now() - $2::text::interval`, minutes, age))
		require.NotZero(t, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = $1`, minutes), minutes)
	}
	require.EqualValues(t, 8, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = 360 AND push_requests = 6`))
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
