package check_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
)

func TestWatchRecordsLeases(t *testing.T) {
	t.Parallel()
	pool := database(t)
	_, err := pool.Exec(t.Context(), fillTables)
	require.NoError(t, err)
	require.NoError(t, check.Watch(t.Context(), pool))
	const a, b, c = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b", "00000000-0000-0000-0000-00000000000c"
	change := func(statement string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), "UPDATE belfry.cursor c SET "+statement+` FROM belfry.partition p, belfry.queue q
			WHERE p.id = c.partition_id AND q.id = p.queue_id AND p.name = 'p2' AND q.name = 'q' AND q.deleted_at IS NULL`, args...)
		require.NoError(t, err)
	}
	change("attempts = 7") // no lease
	change("lease_id = $1, lease_until = now() + interval '1 hour'", a)
	change("lease_until = now() + interval '2 hours'")      // extended
	change("lease_id = NULL, lease_until = NULL")           // released
	change("lease_id = $1, lease_until = '2100-01-01Z'", b) // given
	change("lease_id = $1, lease_until = '2100-01-02Z'", c) // given while b is alive
	change("lease_until = '2100-01-03Z', consumed = 1")     // extended
	periods, _, err := check.ReadLeasePeriods(t.Context(), pool, []string{"q"}, time.Now())
	require.NoError(t, err)
	require.Len(t, periods, 3)
	for i, lease := range []string{a, b, c} {
		require.Equal(t, lease, periods[i].LeaseID)
		require.Equal(t, []string{"q", "p2", "g"}, []string{periods[i].Queue, periods[i].Partition, periods[i].Group})
	}
	require.Less(t, periods[0].Until.Sub(periods[0].From), time.Hour, "the lease was released")
	require.Equal(t, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), periods[1].Until.UTC())
	require.Equal(t, time.Date(2100, 1, 3, 0, 0, 0, 0, time.UTC), periods[2].Until.UTC())

	found := check.Run(nil, check.State{LeasePeriods: periods}, check.Options{})
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, c+" was given")

	_, err = pool.Exec(t.Context(), "DROP TABLE chaos.lease_change CASCADE")
	require.NoError(t, err)
	_, _, err = check.ReadLeasePeriods(t.Context(), pool, []string{"q"}, time.Now())
	require.ErrorContains(t, err, "reading changes of leases")
	require.ErrorContains(t, check.Watch(t.Context(), pool), "installing the triggers of the checker")
}

func TestWatchRecordsMovesAndDeletions(t *testing.T) {
	t.Parallel()
	pool := database(t)
	require.NoError(t, check.Watch(t.Context(), pool))
	began := time.Now()
	const inPartition = ` FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id
		WHERE p.name = 'p' AND q.name = 'q' AND q.deleted_at IS NULL`
	for _, statement := range []string{
		fillTables,
		`UPDATE belfry.message SET created_at = now() - interval '1 hour'`,
		`SELECT belfry.seek_cursors(ARRAY[p.id], (SELECT min(g.id) FROM belfry.consumer_group g WHERE g.queue_id = q.id AND g.name = 'g'), '-infinity')` + inPartition,
		`UPDATE belfry.cursor SET committed = 0 WHERE group_id IN (SELECT id FROM belfry.consumer_group WHERE name = 'late')`,
		`SELECT belfry.delete_message(p.id, 't1')` + inPartition,
		`UPDATE belfry.queue SET retention_enabled = true, retention_seconds = 60, completed_retention_seconds = 30`,
		`DELETE FROM belfry.dead_letter`,
		`SELECT belfry.sweep_partition(q.id, p.id, false, 10, NULL)` + inPartition,
		`UPDATE belfry.queue SET deleted_at = now() WHERE name = 'other'`,
	} {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	_, moves, err := check.ReadLeasePeriods(t.Context(), pool, []string{"q"}, began)
	require.NoError(t, err)
	var got []string
	for _, m := range moves {
		require.Less(t, m.At, time.Minute)
		got = append(got, fmt.Sprintf("%s %s %s %d-%d", m.Partition, m.Group, m.How, m.From, m.To))
	}
	require.ElementsMatch(t, []string{
		"p g joined 0-1", "p late joined 0-1", "p2 g joined 0-1", "p g sought 1-0", "p late fell 1-0",
	}, got)

	state, err := check.ReadState(t.Context(), pool, []string{"q", "other"})
	require.NoError(t, err)
	require.NoError(t, check.ReadDeletions(t.Context(), pool, []string{"q", "other"}, &state))
	p := state.Partitions[0]
	require.Equal(t, []time.Duration{time.Minute, 30 * time.Second}, []time.Duration{p.Retention, p.CompletedRetention})
	require.Len(t, p.Deleted, 2)
	for i, how := range []string{check.Asked, check.Swept} {
		require.Equal(t, how, p.Deleted[i].How)
		require.Equal(t, int64(i+1), p.Deleted[i].Seq)
		require.True(t, p.Deleted[i].Unread)
		require.InDelta(t, time.Hour.Seconds(), p.Deleted[i].Age.Seconds(), 60)
	}
	require.Empty(t, p.Log)
	require.Contains(t, state.Sweeps, check.Sweep{Queue: "q", Retention: 1, Unread: 1})
	require.Contains(t, state.Erased, check.Erased{Queue: "other", Partition: "p", TransactionID: "t1"})
}

func TestWatchRecordsRedeliveriesAndRemovals(t *testing.T) {
	t.Parallel()
	pool := database(t)
	require.NoError(t, check.Watch(t.Context(), pool))
	const inPartition = ` FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id
		WHERE p.name = 'p2' AND q.name = 'q' AND q.deleted_at IS NULL`
	const lease = "00000000-0000-0000-0000-00000000000a"
	for _, statement := range []string{
		fillTables,
		`UPDATE belfry.queue SET max_wait_time_seconds = 7`,
		`INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts)
		 SELECT c.partition_id, c.group_id, s.seq, 0, 0 FROM belfry.cursor c
		   JOIN belfry.consumer_group g ON g.id = c.group_id AND g.name = 'g'
		   JOIN belfry.partition p ON p.id = c.partition_id AND p.name = 'p' JOIN belfry.queue q ON q.id = p.queue_id AND q.deleted_at IS NULL,
		   generate_series(1, 3) AS s(seq)`,
		`UPDATE belfry.redrive SET lease_id = '` + lease + `' WHERE seq < 3`,
		`UPDATE belfry.redrive SET attempts = 1`,
		`UPDATE belfry.partition SET created_at = created_at - interval '3 days'`,
		`SELECT belfry.remove_idle_partition(p.id, interval '1 day')` + inPartition,
		`DELETE FROM belfry.partition WHERE name = 'p3'`,
	} {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	state, err := check.ReadState(t.Context(), pool, []string{"q"})
	require.NoError(t, err)
	require.NoError(t, check.ReadDeletions(t.Context(), pool, []string{"q"}, &state))
	require.Equal(t, []check.Redelivered{{Queue: "q", Partition: "p", Group: "g", LeaseID: lease, Seqs: []int64{1, 2}}}, state.Redelivered)
	require.Len(t, state.Partitions, 2)
	require.Equal(t, 7*time.Second, state.Partitions[0].MaxWait)
	gone := state.Partitions[1]
	require.Equal(t, check.Former("p2", gone.ID), gone.Name)
	require.InDelta(t, 72, gone.Removed.Idle.Hours(), 1)
	require.Zero(t, gone.Removed.Messages)
	require.Equal(t, []check.Cursor{{Group: "g", FromStart: true, Committed: 1, Consumed: 1}}, gone.Cursors)
	_, moves, err := check.ReadLeasePeriods(t.Context(), pool, []string{"q"}, time.Now())
	require.NoError(t, err)
	require.Len(t, moves, 3)
	require.True(t, slices.ContainsFunc(moves, func(m check.Move) bool { return m.Partition == gone.Name }), "%v", moves)
}
