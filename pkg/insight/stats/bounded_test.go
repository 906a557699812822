package stats_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func (r *fixture) groups() *stats.Groups { return stats.NewGroups(r.pool) }

func (r *fixture) show(queueName, group string) stats.Beginnings {
	r.t.Helper()
	found, err := r.groups().Beginnings(r.t.Context(), queueName, group, 100)
	require.NoError(r.t, err)
	return found
}

func partitionsOf(places []stats.Place) (names []string) {
	for i := range places {
		names = append(names, places[i].Partition)
	}
	return names
}

// Each partition of the queue is in a different state.
func TestBeginningsListEachPartitionByItsState(t *testing.T) {
	r := newFixture(t)
	_, err := r.groups().Beginnings(t.Context(), "q", "g", 10)
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
	r.configure("q", func(s *catalog.Settings) { s.Options.RetryDelay = 600_000 })
	for _, name := range []string{"due", "old", "leased", "failed", "done", "paused"} {
		r.push("q", name, name+"1", name+"2", name+"3")
	}
	_, err = r.groups().Beginnings(t.Context(), "q", "g", 10)
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err), "no group has popped yet")
	before := time.Now()
	for _, name := range []string{"due", "old", "paused"} {
		r.pop("q", name, "g", 1)
	}
	r.exec("UPDATE belfry.cursor SET lease_id = NULL, lease_until = NULL, lease_end = NULL, ready_at = now() - interval '1 minute'")
	r.exec(`UPDATE belfry.cursor c SET ready_at = now() - interval '1 hour' FROM belfry.partition p WHERE p.id = c.partition_id AND p.name = 'old'`)
	r.exec(`UPDATE belfry.message SET created_at = now() - interval '2 hours' WHERE transaction_id = 'old1'`)
	r.exec(`UPDATE belfry.partition SET paused = true WHERE name = 'paused'`)
	r.exec(`UPDATE belfry.cursor c SET ready_at = NULL FROM belfry.partition p WHERE p.id = c.partition_id AND p.name = 'paused'`)
	held := r.pop("q", "leased", "g", 2)
	r.ack(r.pop("q", "failed", "g", 1), queue.AckFailed)
	r.ack(r.pop("q", "done", "g", 3), queue.AckCompleted)

	got := r.show("q", "g")
	require.Equal(t, []string{"old", "due"}, partitionsOf(got.Due.List), "the partition that has been due the longest is the first")
	require.Equal(t, []string{"leased"}, partitionsOf(got.Leased.List))
	require.Equal(t, []string{"failed"}, partitionsOf(got.Resting.List))
	lease := got.Leased.List[0]
	require.Equal(t, held.LeaseID, lease.Lease)
	require.EqualValues(t, 2, lease.Held)
	require.WithinRange(t, lease.LeasedAt, before.Truncate(time.Millisecond), time.Now())
	require.Greater(t, lease.LeaseUntil, time.Now())
	require.EqualValues(t, 1, lease.Deliveries)
	require.Equal(t, "retry", got.Resting.List[0].Cause)
	require.EqualValues(t, 1, got.Resting.List[0].Failures)
	require.InDelta(t, 2*time.Hour.Seconds(), got.Due.List[0].Age.Seconds(), 60)
	for _, list := range []stats.Places{got.Due, got.Leased, got.Resting} {
		require.Nil(t, list.Next)
	}

	// The id of a SQL consumer's lease does not contain an instant.
	r.exec("UPDATE belfry.cursor SET lease_id = gen_random_uuid() WHERE lease_id IS NOT NULL")
	require.True(t, r.show("q", "g").Leased.List[0].LeasedAt.IsZero())
	named, err := r.groups().Places(t.Context(), "q", "g", stats.PlaceQuery{List: stats.PlacesNamed, Limit: 100})
	require.NoError(t, err)
	require.Equal(t, []string{"done", "due", "failed", "leased", "old", "paused"}, partitionsOf(named.List))
	require.EqualValues(t, 3, named.List[0].Consumed)
	require.True(t, named.List[0].ReadyAt.IsZero())
	require.EqualValues(t, 2, named.List[3].Held)
	require.True(t, named.List[5].Paused)
}

func TestRestingSaysWhy(t *testing.T) {
	r := newFixture(t)
	r.configure("delay", func(s *catalog.Settings) { s.Options.DelayedProcessing = 3600 })
	r.configure("window", func(s *catalog.Settings) { s.Options.WindowBuffer = 3600 })
	for _, name := range []string{"delay", "window"} {
		r.push(name, "p", "1")
		r.pop(name, "p", "g", 1)
		resting := r.show(name, "g").Resting.List
		require.Len(t, resting, 1, name)
		require.Equal(t, name, resting[0].Cause)
		require.Greater(t, resting[0].ReadyAt, time.Now().Add(50*time.Minute))
	}
	r.configure("again")
	r.push("again", "p", "1")
	r.ack(r.pop("again", "p", "g", 1), queue.AckDead)
	r.exec(`INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts, retry_at)
		SELECT c.partition_id, c.group_id, 1, 1, 1, now() + interval '1 hour' FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'again'`)
	r.exec(`UPDATE belfry.cursor c SET redrives = 1, ready_at = r.retry_at FROM belfry.redrive r WHERE r.partition_id = c.partition_id`)
	resting := r.show("again", "g").Resting.List
	require.Equal(t, "retry", resting[0].Cause, "a redriven message waits")
	require.EqualValues(t, 1, resting[0].Lag)

	r.configure("stopped")
	r.push("stopped", "p", "1")
	r.pop("stopped", "p", "g", 1)
	r.exec(`UPDATE belfry.cursor c SET retry_at = belfry.blocked(), ready_at = belfry.blocked(), lease_id = NULL, lease_until = NULL, lease_end = 0
		FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE p.id = c.partition_id AND q.name = 'stopped'`)
	resting = r.show("stopped", "g").Resting.List
	require.Equal(t, "blocked", resting[0].Cause)
	require.True(t, resting[0].ReadyAt.IsZero(), "no instant makes a blocked partition ready")
	named, err := r.groups().Places(t.Context(), "stopped", "g", stats.PlaceQuery{List: stats.PlacesNamed, Limit: 9})
	require.NoError(t, err)
	require.True(t, named.List[0].ReadyAt.IsZero())
}

// allPlaces follows a list to its end.
func (r *fixture) allPlaces(list stats.PlaceList, limit int) (names []string, requests int) {
	r.t.Helper()
	for from := (stats.PlaceStart{}); ; {
		found, err := r.groups().Places(r.t.Context(), "crowd", "g", stats.PlaceQuery{List: list, From: from, Limit: limit})
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, len(found.List), limit)
		names, requests = append(names, partitionsOf(found.List)...), requests+1
		require.False(r.t, found.Incomplete)
		require.Less(r.t, requests, 1000, "the list does not end")
		if found.Next == nil {
			return names, requests
		}
		from = *found.Next
	}
}

// Many partitions are ready at the same instant. Each list contains each of its partitions exactly once.
func TestListsOfPlacesAreComplete(t *testing.T) {
	r := newFixture(t)
	r.manyPartitions(3000)
	r.exec(`UPDATE belfry.cursor c SET ready_at = CASE WHEN p.id % 3 = 0 THEN '2026-01-01' ELSE '2100-01-01' END::timestamptz + (p.id / 1000) * interval '1 second',
		lease_id = gen_random_uuid(), lease_end = 1, lease_until = CASE WHEN p.id % 3 = 1 AND p.id > 2500 THEN '2100-01-01'::timestamptz ELSE '2026-01-01' END
		FROM belfry.partition p WHERE p.id = c.partition_id`)
	want := func(condition string) (names []string) {
		require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT array_agg(p.name ORDER BY p.name) FROM belfry.partition p
			JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'crowd' AND p.name <> 'Default' AND (`+condition+`)`).Scan(&names))
		return names
	}
	for _, limit := range []int{7, 100, 1000} {
		for list, condition := range map[stats.PlaceList]string{
			stats.PlacesDue: "p.id % 3 = 0", stats.PlacesLeased: "p.id % 3 = 1 AND p.id > 2500",
			stats.PlacesResting: "p.id % 3 = 2 OR p.id % 3 = 1 AND p.id <= 2500", stats.PlacesNamed: "true",
		} {
			found, _ := r.allPlaces(list, limit)
			require.ElementsMatch(t, want(condition), found, "%s, %d", list, limit)
		}
	}
	_, requests := r.allPlaces(stats.PlacesLeased, 1000)
	require.Equal(t, 3, requests, "each request examines 1,000 cursors")
}

// A group of which only the subscription is kept is no group, until it has a cursor.
func TestAKeptSubscriptionIsNoGroup(t *testing.T) {
	r := newFixture(t)
	r.push("q", "p", "1")
	r.exec(`INSERT INTO belfry.consumer_group (queue_id, name, kept) SELECT id, 'g', true FROM belfry.queue`)
	_, err := r.groups().Places(t.Context(), "q", "g", stats.PlaceQuery{List: stats.PlacesNamed, Limit: 10})
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
	r.pop("q", "p", "g", 1)
	require.Len(t, r.show("q", "g").Leased.List, 1)
}

func TestHeatFindsTheWorstPartitions(t *testing.T) {
	r := newFixture(t)
	r.configure("q", func(s *catalog.Settings) { s.Options.RetryDelay = 600_000 })
	for i := range 9 {
		r.push("q", fmt.Sprintf("p%d", i), "1", "2", "3")
	}
	heat := func(f stats.HeatFilter) (names []string, found []stats.Heat, next *string) {
		f.Limit = max(f.Limit, 3)
		found, next, err := r.groups().Heat(t.Context(), "q", f)
		require.NoError(t, err)
		for i := range found {
			names = append(names, found[i].Name)
		}
		return names, found, next
	}
	names, found, next := heat(stats.HeatFilter{})
	require.Equal(t, []string{"Default", "p0", "p1"}, names)
	require.Equal(t, "p1", *next)
	require.EqualValues(t, 3, found[1].Lag, "without a group, all messages are left")
	names, _, _ = heat(stats.HeatFilter{From: stats.Start{Name: "p5"}})
	require.Equal(t, []string{"p5", "p6", "p7"}, names)
	names, _, next = heat(stats.HeatFilter{From: stats.Start{Name: "p7", After: true}})
	require.Equal(t, []string{"p8"}, names)
	require.Nil(t, next)

	for i := range 9 {
		r.ack(r.pop("q", fmt.Sprintf("p%d", i), "g", 1), queue.AckCompleted)
		r.pop("q", fmt.Sprintf("p%d", i), "h", 3)
	}
	r.ack(r.pop("q", "p3", "g", 1), queue.AckFailed)
	r.exec(`UPDATE belfry.message m SET created_at = now() - (10 - right(p.name, 1)::int) * interval '1 hour'
		FROM belfry.partition p WHERE p.id = m.partition_id AND p.name IN ('p3', 'p7') AND m.seq > 1`)
	r.exec(`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts) SELECT p.id, s, 1, 1 FROM belfry.partition p, generate_series(1, 30) s WHERE p.name = 'p7'`)
	names, found, _ = heat(stats.HeatFilter{Worst: true, Group: "g"})
	require.Equal(t, []string{"p3", "p7"}, names[:2], "the worst partitions include a partition that waits after a failure")
	require.Equal(t, [2]int64{1, 2}, [2]int64{found[0].Failures, found[0].Lag})
	require.True(t, found[0].Resting)
	require.Equal(t, "g", found[0].Group)
	require.InDelta(t, 7*time.Hour.Seconds(), found[0].Age.Seconds(), 60)
	require.EqualValues(t, 20, found[1].Dead)
	require.True(t, found[1].DeadAtLeast)
	_, found, _ = heat(stats.HeatFilter{Worst: true})
	require.EqualValues(t, 3, found[0].Lag, "group h has more unfinished messages")
	require.True(t, found[0].Leased)
}

// The preview of a seek has the same numbers as the seek.
func TestPreviewSeekCountsWhatTheSeekDoes(t *testing.T) {
	r := newFixture(t)
	for i := range 4 {
		r.push("q", "p"+strconv.Itoa(i), "1", "2", "3", "4", "5", "6")
	}
	r.exec(`UPDATE belfry.message SET created_at = timestamptz '2026-01-01' + seq * interval '1 hour'`)
	r.ack(r.pop("q", "p0", "g", 6), queue.AckCompleted)
	r.ack(r.pop("q", "p1", "g", 3), queue.AckCompleted)
	parked := r.pop("q", "p2", "g", 4)
	r.ack(parked, queue.AckDead, 2) // a message after the cursor
	r.pop("q", "p3", "g", 1)
	// A message was deleted in the middle of p0 and of p1.
	r.exec(`WITH gone AS (DELETE FROM belfry.message m USING belfry.partition p WHERE p.id = m.partition_id AND p.name IN ('p0', 'p1') AND m.seq IN (2, 5) RETURNING m.partition_id)
		UPDATE belfry.partition p SET holes = 2 FROM gone WHERE p.id = gone.partition_id`)
	unfinished := func() (n int64) {
		require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT count(*) FROM belfry.cursor c JOIN belfry.message m ON m.partition_id = c.partition_id
			WHERE m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)`).Scan(&n))
		return n
	}
	for name, to := range map[string]stats.SeekTarget{
		"the beginning": {}, "the end": {End: true}, "an instant": {At: time.Date(2026, 1, 1, 4, 30, 0, 0, time.UTC)},
		"an instant after all": {At: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}, "an instant before all": {At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		r.exec(`CREATE TEMPORARY TABLE before AS SELECT * FROM belfry.cursor`)
		r.exec(`UPDATE belfry.partition SET last_push_at = '2026-01-01 06:00Z'`)
		preview, err := r.groups().PreviewSeek(t.Context(), "q", "g", to, stats.SeekPart{})
		require.NoError(t, err)
		require.False(t, preview.AtLeast)
		require.Equal(t, [2]int64{4, 2}, [2]int64{preview.Cursors, preview.Leases})
		was := unfinished()
		_, err = r.catalog.Seek(t.Context(), "q", "g", catalog.Position{End: to.End, After: to.At})
		require.NoError(t, err)
		require.Equal(t, unfinished()-was, preview.Again-preview.Skipped, name)
		r.exec(`TRUNCATE belfry.cursor`)
		r.exec(`INSERT INTO belfry.cursor SELECT * FROM before`)
		r.exec(`DROP TABLE before`)
	}
	partition := "p0"
	preview, err := r.groups().PreviewSeek(t.Context(), "q", "g", stats.SeekTarget{Partition: &partition}, stats.SeekPart{})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), preview.CountedAt, time.Minute)
	preview.CountedAt = time.Time{}
	require.Equal(t, stats.SeekPreview{Cursors: 1, Again: 4}, preview)
}

// A preview of more partitions than one statement examines is exact. If its time ends before, it says so.
func TestPreviewSeekOfManyPartitionsIsExact(t *testing.T) {
	r := newFixture(t)
	r.manyPartitions(1200)
	var finished int64
	require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT count(*) FROM belfry.cursor c JOIN belfry.message m ON m.partition_id = c.partition_id
		JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'crowd' AND m.seq <= c.committed`).Scan(&finished))
	for _, to := range []stats.SeekTarget{{}, {At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		huge, err := r.groups().PreviewSeek(t.Context(), "crowd", "g", to, stats.SeekPart{})
		require.NoError(t, err)
		require.False(t, huge.AtLeast)
		require.Equal(t, finished, huge.Again)
		require.Nil(t, huge.Next)
		var parts int64
		part := stats.SeekPart{Limit: 500}
		for n, more := 0, true; more; n++ {
			one, err := r.groups().PreviewSeek(t.Context(), "crowd", "g", to, part)
			require.NoError(t, err)
			require.LessOrEqual(t, one.Cursors, int64(500))
			parts, part.After, more = parts+one.Again, one.Next, one.Next != nil
			require.Less(t, n, 4)
		}
		require.Equal(t, finished, parts, "the parts together are the whole")
	}
	cut, err := r.groups().Hasty().PreviewSeek(t.Context(), "crowd", "g", stats.SeekTarget{}, stats.SeekPart{})
	require.NoError(t, err)
	require.True(t, cut.AtLeast)
	require.Less(t, cut.Again, finished)
}

// The cost of each statement does not depend on the number of partitions.
func TestBoundedReadsAreBounded(t *testing.T) {
	r := newFixture(t)
	r.manyPartitions(20_000)
	r.exec(`UPDATE belfry.cursor SET ready_at = now() - partition_id * interval '1 second' WHERE committed = 0`)
	r.exec(`ANALYZE belfry.cursor, belfry.partition, belfry.message`)
	require.Less(t, r.reads("insight/stats/queue_group", int64(1), "g"), 5000)
	require.Less(t, r.reads("insight/stats/queue_tags", "", "", int64(200)), 20)
	require.Less(t, r.reads("insight/stats/queue_size", int64(1), int64(1001)), 1100)
	require.Less(t, r.reads("insight/stats/group_places", int64(1), "due", nil, int64(0), int64(100), int64(100)), 1500)
	require.Less(t, r.reads("insight/stats/group_places", int64(1), "resting", nil, int64(0), int64(100), int64(1000)), 1500)
	require.Less(t, r.reads("insight/stats/group_places_named", int64(1), int64(1), "p5", true, int64(100)), 1500)
	require.Less(t, r.reads("insight/stats/queue_heat", int64(1), true, "", false, int64(500), nil, int64(20), int64(21)), 9000)
	require.Less(t, r.reads("insight/stats/queue_heat", int64(1), false, "p5", false, int64(500), nil, int64(20), int64(21)), 9000)
	require.Less(t, r.reads("insight/stats/seek_preview", int64(1), int64(1), time.Now(), nil, int64(1000), int64(10_000), nil), 25_000)
	require.Len(t, r.show("crowd", "g").Due.List, 100)
}
