package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type backlogBody struct {
	Series []struct {
		Bucket, BacklogCountedAt time.Time
		QueueName                string
		PushMessages             int64
		Backlog, OldestSeconds   *int64
	}
}

// A backlog that was counted once is in each bucket until the next count, also while nothing happens, and its age grows. Without the
// parameter queue, only the buckets with counts have it.
func TestTheHistoryShowsTheBacklogOverTime(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	now := time.Now().UTC().Truncate(time.Minute)
	s.scan(t, `WITH i AS (INSERT INTO belfry.history_instance SELECT $1::timestamptz - m * interval '1 minute', 1, '00000000-0000-4000-8000-000000000001', 'host', 6632, 7,
			1, 1, 1, 1, 1, 1, 1, 1, 1 FROM unnest(ARRAY[180, 40, 30]) m RETURNING at, instance),
		h AS (INSERT INTO belfry.history SELECT i.at, 1, i.instance, 'q', g, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', NULL,
			CASE extract(epoch FROM $1::timestamptz - i.at) WHEN 180 * 60 THEN 5 WHEN 40 * 60 THEN 9 ELSE 0 END + length(g),
			i.at - interval '1 hour', i.at + interval '61 seconds' FROM i, unnest(ARRAY['', 'g']) g RETURNING 1) SELECT count(*) FROM h`, []any{now}, new(int))
	read := func(from, to int, filter string) (backlogs, ages []int64) {
		at := func(minutes int) string { return now.Add(-time.Duration(minutes) * time.Minute).Format(time.RFC3339) }
		series := ask[backlogBody](c, get("/api/v1/analytics/queue-ops?from="+at(from)+"&to="+at(to)+filter)).ok(http.StatusOK).Series
		for i := range series { // the newest is the first
			b := &series[len(series)-1-i]
			require.Equal(t, "q", b.QueueName)
			require.False(t, b.BacklogCountedAt.After(b.Bucket.Add(70*time.Second)))
			backlogs, ages = append(backlogs, *b.Backlog), append(ages, *b.OldestSeconds)
		}
		return backlogs, ages
	}
	backlogs, ages := read(42, 28, "&queue=q")
	require.Equal(t, []int64{5, 5, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0}, backlogs)
	require.Equal(t, []int64{199 * 60, 200 * 60, 61 * 60, 62 * 60}, ages[:4])
	require.Zero(t, ages[12])
	backlogs, _ = read(42, 38, "&queue=q&consumerGroup=g")
	require.Equal(t, []int64{6, 6, 10, 10}, backlogs)
	backlogs, _ = read(100, 98, "&queue=q")
	require.Equal(t, []int64{5, 5}, backlogs, "the last known value holds")
	backlogs, _ = read(42, 28, "")
	require.Equal(t, []int64{9, 0}, backlogs)
	backlogs, _ = read(300, 298, "&queue=q")
	require.Empty(t, backlogs, "it was not counted before")
}
