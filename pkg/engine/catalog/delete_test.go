package catalog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

func TestDeleteOfALargeQueueAnswersFirstAndPurgesLater(t *testing.T) {
	r := newFixture(t)
	old := r.configure("orders")
	key, other := r.queueKey(old), r.queueKey(r.configure("other"))
	r.fill(key, size{partitions: 3000, messages: 5, groups: 2, deadLetters: 2})
	r.fill(other, size{partitions: 20, messages: 5, groups: 2, deadLetters: 2})
	h, kept := r.holdings(key), r.holdings(other)
	before, untouched := r.count(h), r.count(kept)
	require.Equal(t, rows{queues: 1, partitions: 3001, messages: 15000, groups: 2, cursors: 6000, deadLetters: 12000}, before)

	// Another session locks a message and a dead letter. Delete does not wait for these locks.
	reader := enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, reader, "BEGIN; SELECT FROM belfry.message FOR UPDATE; SELECT FROM belfry.dead_letter FOR UPDATE")
	watch := stopwatch.Start(t)
	existed, err := r.Delete(enginetest.Context(t), "orders")
	require.NoError(t, err)
	require.True(t, existed)
	watch.Within(t, enginetest.Patience/3, "Delete does not wait for the other session")
	after := r.count(h)
	require.Equal(t, before.messages, after.messages, "the purge deletes the rows later")
	require.Equal(t, before.cursors, after.cursors, "the purge deletes the cursors later, but no verb reads them any more")
	existed, err = r.Delete(enginetest.Context(t), "orders")
	require.NoError(t, err)
	require.False(t, existed)

	// The name is free before the purge deletes a row.
	fresh := r.configure("orders")
	require.NotEqual(t, old.QueueID, fresh.QueueID)
	require.NotEqual(t, old.PartitionID, fresh.PartitionID)
	newKey := r.queueKey(fresh)
	r.fill(newKey, size{partitions: 10, messages: 1, groups: 1, deadLetters: 1})
	current := r.holdings(newKey)
	wanted := r.count(current)
	enginetest.Exec(t, reader, "COMMIT")

	stop := run(t, r.Catalog)
	enginetest.Await(t, "every row is purged", func() bool { return r.count(h) == rows{} })
	require.NoError(t, stop())
	require.Equal(t, wanted, r.count(current), "the new queue of that name keeps its rows")
	require.Equal(t, untouched, r.count(kept), "the other queue keeps its rows")
}

func TestOneOfManyConcurrentDeletesFindsTheQueue(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 1500, messages: 1, groups: 2})
	h := r.holdings(key)
	type answer struct {
		existed bool
		err     error
	}
	answers := make(chan answer, 8)
	ctx := enginetest.Context(t)
	for range cap(answers) {
		go func() {
			existed, err := r.Delete(ctx, "orders")
			answers <- answer{existed, err}
		}()
	}
	var found int
	for range cap(answers) {
		a := <-answers
		require.NoError(t, a.err)
		if a.existed {
			found++
		}
	}
	require.Equal(t, 1, found)
	require.NoError(t, r.Purge(enginetest.Context(t)))
	require.Equal(t, rows{}, r.count(h))
}

func TestRunPurgesAfterEachDelete(t *testing.T) {
	r := newFixture(t)
	stop := run(t, r.Catalog)
	for range 3 {
		h := r.deleted("orders", size{partitions: 5, messages: 2, groups: 1, deadLetters: 1})
		enginetest.Await(t, "every row is purged", func() bool { return r.count(h) == rows{} })
	}
	require.NoError(t, stop())
}

func TestRunPurgesWhatAnEarlierProcessLeft(t *testing.T) {
	r := newFixture(t)
	// The earlier process ended after its first transactions, so most partitions are still open.
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 1200, messages: 2, groups: 1, deadLetters: 1})
	h := r.holdings(key)
	r.exec("UPDATE belfry.queue SET deleted_at = clock_timestamp()")
	r.exec(`WITH page AS (UPDATE belfry.partition SET closed = true WHERE name IN ('p1', 'p2') RETURNING id)
		DELETE FROM belfry.cursor USING page WHERE partition_id = page.id`)
	stop := run(t, r.Catalog)
	enginetest.Await(t, "every row is purged", func() bool { return r.count(h) == rows{} })
	require.NoError(t, stop())
}

func TestInterruptedPurgeIsResumed(t *testing.T) {
	r := newFixture(t)
	h := r.deleted("orders", size{partitions: 12, messages: 1000, groups: 1, deadLetters: 2})

	// The purge waits for a lock in its first page. Its context ends before the lock is free.
	holder := enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, holder, "BEGIN; SELECT FROM belfry.message ORDER BY partition_id, seq LIMIT 1 FOR UPDATE")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Purge(ctx) }()
	enginetest.Await(t, "the purge waits for the message", r.lockWaiters)
	cancel()
	enginetest.Exec(t, holder, "COMMIT")
	require.ErrorIs(t, <-done, context.Canceled)
	left := r.count(h)
	require.Positive(t, left.messages, "the purge stops between two transactions")
	require.Less(t, left.messages, int64(12000), "the statement that waited completes")
	require.Equal(t, int64(1), left.queues, "the queue is still marked as deleted")

	require.NoError(t, catalog.New(enginetest.Pool(t, r.dsn), nil, &events.Bus{}, zap.NewNop()).Purge(enginetest.Context(t)))
	require.Equal(t, rows{}, r.count(h))
	require.NoError(t, r.Purge(enginetest.Context(t)), "a purge without deleted queues returns no error")
}

func TestTwoInstancesPurgeAtOnce(t *testing.T) {
	r := newFixture(t)
	var all []holdings
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, r.deleted(name, size{partitions: 300, messages: 20, groups: 2, deadLetters: 3}))
	}
	done, ctx := make(chan error, 3), enginetest.Context(t)
	for range cap(done) {
		instance := catalog.New(enginetest.Pool(t, r.dsn), nil, &events.Bus{}, zap.NewNop())
		go func() { done <- instance.Purge(ctx) }()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	for _, h := range all {
		require.Equal(t, rows{}, r.count(h))
	}
}

func TestAFailedPurgeIsRepeated(t *testing.T) {
	r := newFixture(t)
	h := r.deleted("orders", size{partitions: 3, messages: 2, groups: 1, deadLetters: 1})
	r.exec("ALTER TABLE belfry.dead_letter RENAME TO elsewhere")
	warned := make(chan zapcore.Entry, 10)
	core, _ := observer.New(zap.WarnLevel)
	log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		warned <- e
		return nil
	}))
	stop := run(t, catalog.New(r.pool, nil, &events.Bus{}, log))
	select {
	case e := <-warned:
		require.Equal(t, zapcore.WarnLevel, e.Level)
		require.Contains(t, e.Message, "tried again")
	case <-enginetest.Context(t).Done():
		require.Fail(t, "the failure was not logged")
	}
	r.exec("ALTER TABLE belfry.elsewhere RENAME TO dead_letter")
	enginetest.Await(t, "every row is purged", func() bool { return r.count(h) == rows{} })
	require.NoError(t, stop())
	require.Empty(t, warned, "one failure logs one warning")
}

func TestRunEndsWithItsContext(t *testing.T) {
	r := newFixture(t)
	require.NoError(t, run(t, r.Catalog)())
	r.pool.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ctx), "Run also ends if the database is not reachable")
	require.Error(t, r.Purge(t.Context()))
}

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
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("orders")), size{partitions: 2500, messages: 1, groups: 2, deadLetters: 3})
	r.fill(r.queueKey(r.configure("other")), size{partitions: 3, messages: 1, groups: 2, deadLetters: 1})
	gone, stays, elsewhere := r.groupKey("orders", "g1"), r.groupKey("orders", "g2"), r.groupKey("other", "g1")

	// Another session locks the rows to purge. DeleteGroup does not wait for these locks.
	holder := enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, holder, "BEGIN; SELECT FROM belfry.cursor FOR UPDATE; SELECT FROM belfry.dead_letter FOR UPDATE")
	name := "orders"
	deleted, err := r.DeleteGroup(enginetest.Context(t), "g1", &name, false)
	require.NoError(t, err)
	require.Equal(t, int64(2500), deleted.Cursors)
	require.Zero(t, r.number("SELECT count(*) FROM belfry.consumer_group WHERE id = $1", gone), "the row of the group is deleted")
	require.Equal(t, int64(2500), r.rowsOf("cursor", gone), "the purge deletes the cursors later")
	again, err := r.DeleteGroup(enginetest.Context(t), "g1", &name, false)
	require.NoError(t, err)
	require.Zero(t, again.Cursors)
	enginetest.Exec(t, holder, "COMMIT")

	// Another process purges the group whose deletion this process began.
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

// A partition is created while a group of the queue is deleted. The purge also deletes the cursor
// of the group in the new partition.
func TestAPartitionCreatedDuringDeleteGroupLeavesNoCursor(t *testing.T) {
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("orders")), size{partitions: 1, messages: 1, groups: 1})
	gone := r.groupKey("orders", "g1")
	pusher := enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, pusher, "BEGIN; SELECT belfry.open_partitions(ARRAY['orders'], ARRAY['created'], 300, 3)")
	done, ctx := make(chan error, 1), enginetest.Context(t)
	go func() {
		_, err := r.DeleteGroup(ctx, "g1", nil, false)
		done <- err
	}()
	enginetest.Await(t, "the deletion waits for the creation", r.lockWaiters)
	enginetest.Exec(t, pusher, "COMMIT")
	require.NoError(t, <-done)
	require.Equal(t, int64(2), r.rowsOf("cursor", gone))
	require.NoError(t, r.Purge(enginetest.Context(t)))
	require.Zero(t, r.rowsOf("cursor", gone))
}

func TestSetSubscriptionStartChangesAllQueues(t *testing.T) {
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
