package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// rowsOf counts the rows of a group in a table.
func (r *fixture) rowsOf(table string, group int64) int64 {
	r.t.Helper()
	return r.number("SELECT count(*) FROM belfry."+table+" WHERE group_id = $1", group)
}

func (r *fixture) groupKey(queueName, group string) int64 {
	r.t.Helper()
	return r.number(`SELECT g.id FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
		WHERE q.name = $1 AND g.name = $2`, queueName, group)
}

func (r *fixture) groupsNamed(name string) int64 {
	r.t.Helper()
	return r.number("SELECT count(*) FROM belfry.consumer_group WHERE name = $1", name)
}

func TestDeleteGroupAnswersFirstAndPurgesLater(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("orders")), size{partitions: 2500, messages: 1, groups: 2, deadLetters: 3})
	r.fill(r.queueKey(r.configure("other")), size{partitions: 3, messages: 1, groups: 2, deadLetters: 1})
	gone, stays, elsewhere := r.groupKey("orders", "g1"), r.groupKey("orders", "g2"), r.groupKey("other", "g1")

	// Another session locks the rows to purge. DeleteGroup waits for none of them.
	holder := enginetest.Connect(t, r.dsn)
	_, err := holder.Exec(enginetest.Context(t), "BEGIN; SELECT FROM belfry.cursor FOR UPDATE; SELECT FROM belfry.dead_letter FOR UPDATE")
	require.NoError(t, err)
	name := "orders"
	deleted, err := r.DeleteGroup(enginetest.Context(t), "g1", &name, false)
	require.NoError(t, err)
	require.Equal(t, int64(2500), deleted.Cursors)
	require.Zero(t, r.number("SELECT count(*) FROM belfry.consumer_group WHERE id = $1", gone), "the row of the group is deleted")
	require.Equal(t, int64(2500), r.rowsOf("cursor", gone), "the purge deletes the cursors later")
	again, err := r.DeleteGroup(enginetest.Context(t), "g1", &name, false)
	require.NoError(t, err)
	require.Zero(t, again.Cursors)
	_, err = holder.Exec(enginetest.Context(t), "COMMIT")
	require.NoError(t, err)

	// Another process purges a group whose deletion this one began.
	stop := run(t, catalog.New(enginetest.Pool(t, r.dsn), nil, &events.Bus{}, zap.NewNop()))
	enginetest.Await(t, "the group is purged", func() bool { return r.rowsOf("group_deleted", gone) == 0 })
	require.NoError(t, stop())
	require.Zero(t, r.rowsOf("cursor", gone))
	require.Zero(t, r.rowsOf("dead_letter", gone))
	require.Equal(t, int64(2500), r.rowsOf("cursor", stays))
	require.Equal(t, int64(7500), r.rowsOf("dead_letter", stays))
	require.Equal(t, int64(3), r.rowsOf("cursor", elsewhere))
}

func TestDeletedGroupOfEveryQueue(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, name := range []string{"a", "b"} {
		r.fill(r.queueKey(r.configure(name)), size{partitions: 4, messages: 1, groups: 2})
	}
	for _, want := range []int64{8, 0} {
		deleted, err := r.DeleteGroup(enginetest.Context(t), "g1", nil, false)
		require.NoError(t, err)
		require.Equal(t, want, deleted.Cursors)
		require.Zero(t, r.groupsNamed("g1"))
	}
	require.Equal(t, int64(2), r.groupsNamed("g2"))
	require.NoError(t, r.Purge(enginetest.Context(t)))
	require.Equal(t, int64(8), r.number("SELECT count(*) FROM belfry.cursor"))
}

func TestKeepSubscriptionKeepsOnlyTheSubscription(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("orders")), size{partitions: 2, messages: 1, groups: 2})
	r.exec("UPDATE belfry.consumer_group SET mode = 'new', start_at = '2026-05-16', created_at = '2026-05-15' WHERE name = 'g1'")
	for _, name := range []string{"g1", "g2"} {
		_, err := r.DeleteGroup(enginetest.Context(t), name, nil, true)
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.consumer_group
		WHERE name = 'g1' AND kept AND NOT whole_queue AND mode = 'new' AND start_at = '2026-05-16' AND created_at = '2026-05-15'`))
	require.Zero(t, r.groupsNamed("g2"), "g2 started at the first message, so it has no stored subscription")
	_, err := r.DeleteGroup(enginetest.Context(t), "g1", nil, false)
	require.NoError(t, err)
	require.Zero(t, r.groupsNamed("g1"))
	require.NoError(t, r.Purge(enginetest.Context(t)))
	require.Zero(t, r.number("SELECT count(*) FROM belfry.cursor"))
}

// A partition is created while a group of its queue is deleted. The purge deletes its cursor too.
func TestAPartitionCreatedDuringDeleteGroupLeavesNoCursor(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("orders")), size{partitions: 1, messages: 1, groups: 1})
	gone := r.groupKey("orders", "g1")
	pusher := enginetest.Connect(t, r.dsn)
	_, err := pusher.Exec(enginetest.Context(t), "BEGIN; SELECT belfry.open_partitions(ARRAY['orders'], ARRAY['created'], 300, 3)")
	require.NoError(t, err)
	done, ctx := make(chan error, 1), enginetest.Context(t)
	go func() {
		_, err := r.DeleteGroup(ctx, "g1", nil, false)
		done <- err
	}()
	enginetest.Await(t, "the deletion waits for the creation", r.lockWaiters)
	_, err = pusher.Exec(enginetest.Context(t), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, int64(2), r.rowsOf("cursor", gone))
	require.NoError(t, r.Purge(enginetest.Context(t)))
	require.Zero(t, r.rowsOf("cursor", gone))
}

func TestSetSubscriptionStartChangesAllQueues(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, name := range []string{"a", "b", "c"} {
		r.fill(r.queueKey(r.configure(name)), size{partitions: 1, messages: 2, groups: 2})
	}
	r.exec(`UPDATE belfry.consumer_group g SET mode = 'new', start_at = '2026-05-16' FROM belfry.queue q
		WHERE q.id = g.queue_id AND q.name <> 'c'`)
	start := time.Date(2026, 5, 17, 0, 0, 0, 0, time.UTC)
	moved, err := r.SetSubscriptionStart(enginetest.Context(t), "g1", start)
	require.NoError(t, err)
	require.Equal(t, int64(2), moved, "the third queue has no stored subscription")
	require.Equal(t, int64(2), r.number("SELECT count(*) FROM belfry.consumer_group WHERE start_at = $1 AND name = 'g1'", start))
	require.Equal(t, int64(6), r.number("SELECT count(*) FROM belfry.cursor WHERE committed = 0 AND ready_at IS NOT NULL"), "no cursor moves")
	moved, err = r.SetSubscriptionStart(enginetest.Context(t), "unknown", start)
	require.NoError(t, err)
	require.Zero(t, moved)
}
