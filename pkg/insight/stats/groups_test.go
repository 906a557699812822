package stats_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// groupsFixture is a stats.Groups on a new database, and a connection that fills its tables.
type groupsFixture struct {
	*stats.Groups
	t    *testing.T
	conn *pgx.Conn
}

func newGroupsFixture(t *testing.T) *groupsFixture {
	t.Helper()
	pool := enginetest.Pool(t, enginetest.Database(t))
	conn := enginetest.Connect(t, pool.Config().ConnString())
	return &groupsFixture{Groups: stats.NewGroups(pool), t: t, conn: conn}
}

func (d *groupsFixture) exec(statement string, args ...any) {
	d.t.Helper()
	enginetest.Exec(d.t, d.conn, statement, args...)
}

// createQueue creates a queue with partitions p1, p2, ... and groups that have consumed nothing.
// The messages of a partition are an hour apart, and the last one is new.
func (d *groupsFixture) createQueue(name string, partitions, messages int, groups ...string) {
	d.t.Helper()
	d.exec(`INSERT INTO belfry.queue (name) VALUES ($1)`, name)
	d.exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT q.id, 'p' || i, $3, clock_timestamp() FROM belfry.queue q, generate_series(1, $2::int) i WHERE q.name = $1`, name, partitions, messages)
	d.exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, s, clock_timestamp() - (p.last_seq - s) * interval '1 hour', gen_random_uuid(), 't' || s, '1'
		  FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id, generate_series(1, p.last_seq) s WHERE q.name = $1`, name)
	d.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
		SELECT q.id, g, true FROM belfry.queue q, unnest($2::text[]) g WHERE q.name = $1`, name, groups)
	d.exec(`INSERT INTO belfry.cursor (partition_id, group_id)
		SELECT p.id, g.id FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id
		  JOIN belfry.consumer_group g ON g.queue_id = q.id WHERE q.name = $1`, name)
}

// updateCursor changes the cursors of the groups with a name in the partitions with a name.
func (d *groupsFixture) updateCursor(group, partition, columns string) {
	d.t.Helper()
	d.exec(`UPDATE belfry.cursor c SET `+columns+` FROM belfry.consumer_group g, belfry.partition p
		WHERE g.id = c.group_id AND p.id = c.partition_id AND g.name = $1 AND p.name = $2`, group, partition)
}

func TestListSumsTheLagOfEachGroup(t *testing.T) {
	d := newGroupsFixture(t)
	none, err := d.List(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)

	d.createQueue("b", 3, 5, "g", "h")
	d.createQueue("gone", 2, 3, "g")
	d.exec("UPDATE belfry.queue SET deleted_at = now() WHERE name = 'gone'")
	at := time.Date(2026, 5, 16, 12, 0, 0, 0, time.UTC)
	d.exec("UPDATE belfry.consumer_group SET mode = 'new', start_at = $1, created_at = $1 WHERE name = 'h'", at)
	d.updateCursor("g", "p1", "committed = 5, consumed_at = '2026-05-16 12:00:00Z'")
	d.updateCursor("g", "p2", "committed = 1, skip = '{[2,2],[4,4]}', consumed_at = '2026-05-16 11:00:00Z'") // messages 3 and 5 are left; message 3 is two hours old
	d.updateCursor("h", "p1", "committed = 4, skip = '{[5,5]}'")
	d.updateCursor("h", "p2", "committed = 5")
	d.exec("DELETE FROM belfry.message m USING belfry.partition p WHERE p.id = m.partition_id AND p.name = 'p3' AND m.seq <= 2") // 3 of 5 messages are left, so the lag in p3 is 3
	d.createQueue("a", 1, 0, "g")
	// A cursor of a deleted group does not count.
	d.exec("INSERT INTO belfry.cursor (partition_id, group_id) SELECT p.id, 999 FROM belfry.partition p")
	// A deleted group may leave a kept subscription, which is the start of the next group with that name. List does not
	// return it.
	d.exec("INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, kept) SELECT q.id, 'kept', 'new', now(), true FROM belfry.queue q")

	groups, err := d.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, groups, 3)
	for i, want := range []stats.Group{
		{Name: "g", Queue: "a", Mode: queue.SubscribeAll, Partitions: 1},
		{Name: "g", Queue: "b", Mode: queue.SubscribeAll, Partitions: 3, Lagging: 2, Lag: 2 + 3, ConsumedAt: at},
		{Name: "h", Queue: "b", Mode: queue.SubscribeNew, StartAt: at, CreatedAt: at, Partitions: 3, Lagging: 1, Lag: 3},
	} {
		got := groups[i]
		require.Equal(t, [2]string{want.Name, want.Queue}, [2]string{got.Name, got.Queue})
		require.Equal(t, want.Mode, got.Mode)
		require.Equal(t, [3]int64{want.Partitions, want.Lagging, want.Lag}, [3]int64{got.Partitions, got.Lagging, got.Lag}, "%s of %s", got.Name, got.Queue)
		require.True(t, want.ConsumedAt.Equal(got.ConsumedAt), got.ConsumedAt)
		require.True(t, want.StartAt.Equal(got.StartAt), got.StartAt)
	}
	require.Zero(t, groups[0].Oldest)
	for _, i := range []int{1, 2} {
		require.InDelta(t, 2*time.Hour, groups[i].Oldest, float64(10*time.Minute))
	}
}

func TestGroupReturnsTheProgressInEachPartition(t *testing.T) {
	d := newGroupsFixture(t)
	d.createQueue("b", 3, 4, "g", "h")
	d.createQueue("a", 1, 0, "g")
	d.updateCursor("g", "p2", "committed = 3, consumed = 7, consumed_at = now(), lease_id = '00000000-0000-0000-0000-00000000000a', lease_until = now() + interval '1 hour'")
	d.updateCursor("g", "p3", "committed = 4, lease_id = '00000000-0000-0000-0000-00000000000b', lease_until = now() - interval '1 hour'")
	queues, err := d.Group(t.Context(), "g", 100, nil)
	require.NoError(t, err)
	require.Len(t, queues, 2)
	require.Equal(t, "a", queues[0].Queue)
	require.Equal(t, []stats.PartitionProgress{{Partition: "p1"}}, queues[0].Partitions)
	require.False(t, queues[1].Truncated)
	partitions := queues[1].Partitions
	require.Len(t, partitions, 3)
	require.Equal(t, int64(4), partitions[0].Lag)
	require.InDelta(t, 3*time.Hour, partitions[0].Age, float64(10*time.Minute))
	require.True(t, partitions[0].Lease.IsZero())
	require.True(t, partitions[0].ConsumedAt.IsZero())
	require.Equal(t, [2]int64{1, 7}, [2]int64{partitions[1].Lag, partitions[1].Consumed})
	require.Equal(t, "00000000-0000-0000-0000-00000000000a", partitions[1].Lease.String())
	require.False(t, partitions[1].ConsumedAt.IsZero())
	require.Equal(t, stats.PartitionProgress{Partition: "p3"}, partitions[2], "an expired lease is not returned")

	// The limit counts the partitions of all queues together. The group has one partition in a and three in b.
	for limit, want := range map[int][2]int{1: {1, 0}, 2: {1, 1}, 4: {1, 3}} {
		queues, err = d.Group(t.Context(), "g", limit, nil)
		require.NoError(t, err)
		require.Equal(t, want, [2]int{len(queues[0].Partitions), len(queues[1].Partitions)})
		require.Equal(t, limit < 4, queues[1].Truncated)
	}
	queues, err = d.Group(t.Context(), "unknown", 100, nil)
	require.NoError(t, err)
	require.Empty(t, queues)
}

func TestLaggingReturnsTheOldestUnconsumedMessageFirst(t *testing.T) {
	d := newGroupsFixture(t)
	d.createQueue("a", 3, 5, "g", "h")
	d.createQueue("gone", 1, 9, "g")
	d.exec("UPDATE belfry.queue SET deleted_at = now() WHERE name = 'gone'")
	d.exec("INSERT INTO belfry.cursor (partition_id, group_id) SELECT p.id, 999 FROM belfry.partition p")
	d.updateCursor("g", "p1", "committed = 1, skip = '{[2,2]}'") // 3 is two hours old
	d.updateCursor("g", "p2", "committed = 5")
	d.updateCursor("h", "p1", "committed = 3")
	d.updateCursor("h", "p3", "committed = 2")
	names := func(over time.Duration, limit int) (out []string) {
		partitions, err := d.Lagging(t.Context(), over, limit, nil)
		require.NoError(t, err)
		for i, p := range partitions {
			out = append(out, p.Group+" "+p.Partition)
			require.Equal(t, "a", p.Queue)
			require.False(t, p.PartitionID.IsZero())
			require.Greater(t, p.Age, over)
			require.InDelta(t, p.Age, time.Since(p.Oldest), float64(10*time.Minute))
			require.True(t, i == 0 || partitions[i-1].Age >= p.Age)
		}
		return out
	}
	all := names(30*time.Minute, 100)
	require.ElementsMatch(t, []string{"g p3", "h p2", "g p1", "h p3", "h p1"}, all)
	require.ElementsMatch(t, []string{"g p3", "h p2"}, all[:2], "the oldest unconsumed message of both is four hours old")
	require.Equal(t, "h p1", all[4], "its oldest unconsumed message is one hour old")
	require.ElementsMatch(t, []string{"g p3", "h p2", "g p1", "h p3"}, names(90*time.Minute, 100))
	require.Equal(t, all[:2], names(30*time.Minute, 2))
	require.Len(t, names(30*time.Minute, 1), 1)
	require.Empty(t, names(5*time.Hour, 100))
}

// A statement reads one page of partitions. In this test there are several pages, and each page has cursors.
func TestGroupsReadEveryPage(t *testing.T) {
	d := newGroupsFixture(t)
	d.createQueue("a", 12_000, 2, "g")
	groups, err := d.List(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, [3]int64{12_000, 12_000, 24_000}, [3]int64{groups[0].Partitions, groups[0].Lagging, groups[0].Lag})
	queues, err := d.Group(t.Context(), "g", 11_000, nil)
	require.NoError(t, err)
	require.Len(t, queues[0].Partitions, 11_000)
	require.Equal(t, "p11000", queues[0].Partitions[10_999].Partition)
	lagging, err := d.Lagging(t.Context(), time.Minute, 100_000, nil)
	require.NoError(t, err)
	require.Len(t, lagging, 12_000)
}

// A redriven message that is not settled counts as pending, in the lag of its group, and
// in the time lag.
func TestRedrivenMessagesCountAsLag(t *testing.T) {
	r := newFixture(t)
	groups := stats.NewGroups(r.pool)
	// requireLag checks every figure. age is the age of the oldest message in hours.
	requireLag := func(counts stats.Counts, lag int64, age float64, why string) {
		t.Helper()
		require.Equal(t, counts, r.only().Counts, why)
		near := func(got time.Duration) { t.Helper(); require.InDelta(t, age, got.Hours(), 0.1, why) }
		list, err := groups.List(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, [2]int64{lag, min(lag, 1)}, [2]int64{list[0].Lag, list[0].Lagging}, why)
		near(list[0].Oldest)
		detail, err := groups.Group(t.Context(), "g", 10, nil)
		require.NoError(t, err)
		require.Equal(t, lag, detail[0].Partitions[0].Lag, why)
		near(detail[0].Partitions[0].Age)
		late, err := groups.Lagging(t.Context(), 30*time.Minute, 10, nil)
		require.NoError(t, err)
		o, err := r.Overview(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, lag, o.OffsetLag.Max, why)
		require.InDelta(t, age*3600, o.TimeLag.Max, 360, why)
		if age == 0 {
			require.Empty(t, late, why)
			return
		}
		require.Len(t, late, 1, why)
		require.Equal(t, lag, late[0].Lag, why)
		near(late[0].Age)
		near(time.Since(late[0].Oldest))
	}
	r.push("q", "p", "1", "2", "3", "4")
	d := r.pop("q", "p", "g", 4)
	r.ack(d, queue.AckDead, 0, 2)
	r.ack(d, queue.AckCompleted, 1, 3)
	r.exec(`UPDATE belfry.message SET created_at = created_at - (5 - seq) * interval '1 hour'`)
	requireLag(stats.Counts{Total: 4, Completed: 2, DeadLetter: 2}, 0, 0, "no message is left")
	r.exec(`SELECT belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter))`)
	requireLag(stats.Counts{Total: 4, Pending: 2, Completed: 2}, 2, 4, "two messages were redriven")
	r.push("q", "p", "5")
	requireLag(stats.Counts{Total: 5, Pending: 3, Completed: 2}, 3, 4, "two messages were redriven and one is new")
	d = r.pop("q", "p", "g", 4)
	require.Len(t, d.Messages, 2)
	requireLag(stats.Counts{Total: 5, Pending: 3, Completed: 2}, 3, 4, "a message in delivery is not done")
	r.ack(d, queue.AckCompleted, 0)
	requireLag(stats.Counts{Total: 5, Pending: 2, Completed: 3}, 2, 2, "the first is settled")
	r.ack(d, queue.AckCompleted, 1)
	requireLag(stats.Counts{Total: 5, Pending: 1, Completed: 4}, 1, 0, "the second is settled")
}

// A redriven message of the reader without a group is first pending, then processing (in
// delivery), then completed. For a named group, it is pending until it is completed.
func TestTheStatusOfRedrivenMessages(t *testing.T) {
	t.Parallel()
	for group, redelivered := range map[string]stats.Status{queue.DefaultGroup: stats.StatusProcessing, "g": stats.StatusPending} {
		t.Run(group, func(t *testing.T) {
			r := newFixture(t)
			r.push("q", "p", "1", "2", "3", "4")
			d := r.pop("q", "p", group, 4)
			r.ack(d, queue.AckDead, 0, 2)
			r.ack(d, queue.AckCompleted, 1, 3)
			requireStatus := func(want map[stats.Status][]string) {
				t.Helper()
				for _, status := range []stats.Status{stats.StatusPending, stats.StatusProcessing, stats.StatusCompleted, stats.StatusDeadLetter} {
					require.ElementsMatch(t, want[status], r.list(stats.MessageFilter{Status: status}), "%s for %s", status, group)
				}
			}
			requireStatus(map[stats.Status][]string{stats.StatusDeadLetter: {"1", "3"}, stats.StatusCompleted: {"2", "4"}})
			r.exec(`SELECT belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter))`)
			requireStatus(map[stats.Status][]string{stats.StatusPending: {"1", "3"}, stats.StatusCompleted: {"2", "4"}})
			d = r.pop("q", "p", group, 1)
			want := map[stats.Status][]string{stats.StatusCompleted: {"2", "4"}, stats.StatusPending: {"3"}}
			want[redelivered] = append(want[redelivered], "1")
			requireStatus(want)
			r.ack(d, queue.AckCompleted)
			requireStatus(map[stats.Status][]string{stats.StatusPending: {"3"}, stats.StatusCompleted: {"1", "2", "4"}})

			// A message redriven during a live lease is not part of that lease.
			r.ack(r.pop("q", "p", group, 1), queue.AckCompleted)
			r.push("q", "p", "5", "6")
			d = r.pop("q", "p", group, 2)
			r.ack(d, queue.AckDead, 1)
			r.exec(`SELECT belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter))`)
			want = map[stats.Status][]string{stats.StatusCompleted: {"1", "2", "3", "4"}, stats.StatusPending: {"6"}}
			want[redelivered] = append(want[redelivered], "5")
			requireStatus(want)
		})
	}
}
