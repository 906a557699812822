package catalog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func TestRunPurgesAfterEachDelete(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	stop := run(t, r.Catalog)
	for range 3 {
		key := r.queueKey(r.configure("orders"))
		r.fill(key, size{partitions: 5, messages: 2, groups: 1, deadLetters: 1})
		h := r.holdings(key)
		existed, err := r.Delete(enginetest.Context(t), "orders")
		require.NoError(t, err)
		require.True(t, existed)
		enginetest.Await(t, "every row is purged", func() bool { return r.count(h) == rows{} })
	}
	require.NoError(t, stop())
}

func TestRunPurgesWhatAnEarlierProcessLeft(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	// The earlier process ended after its first transactions. Most partitions are still open.
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
	t.Parallel()
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 12, messages: 1000, groups: 1, deadLetters: 2})
	h := r.holdings(key)
	_, err := r.Delete(enginetest.Context(t), "orders")
	require.NoError(t, err)

	// The purge waits for a lock in its first page. Its context ends before the lock is free.
	holder := enginetest.Connect(t, r.dsn)
	_, err = holder.Exec(enginetest.Context(t), "BEGIN; SELECT FROM belfry.message ORDER BY partition_id, seq LIMIT 1 FOR UPDATE")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Purge(ctx) }()
	enginetest.Await(t, "the purge waits for the message", r.lockWaiters)
	cancel()
	_, err = holder.Exec(enginetest.Context(t), "COMMIT")
	require.NoError(t, err)
	require.ErrorIs(t, <-done, context.Canceled)
	left := r.count(h)
	require.Positive(t, left.messages, "the purge stops between two transactions")
	require.Less(t, left.messages, int64(12000), "the statement that waited completes")
	require.Equal(t, int64(1), left.queues, "the queue is still marked as deleted")

	require.NoError(t, catalog.New(enginetest.Pool(t, r.dsn), nil, &events.Bus{}, zap.NewNop()).Purge(enginetest.Context(t)))
	require.Equal(t, rows{}, r.count(h))
	require.NoError(t, r.Purge(enginetest.Context(t)), "a purge without deleted queues is no error")
}

func TestTwoInstancesPurgeAtOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var all []holdings
	for _, name := range []string{"a", "b", "c"} {
		key := r.queueKey(r.configure(name))
		r.fill(key, size{partitions: 300, messages: 20, groups: 2, deadLetters: 3})
		all = append(all, r.holdings(key))
	}
	for _, name := range []string{"a", "b", "c"} {
		_, err := r.Delete(enginetest.Context(t), name)
		require.NoError(t, err)
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
	t.Parallel()
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 3, messages: 2, groups: 1, deadLetters: 1})
	h := r.holdings(key)
	_, err := r.Delete(enginetest.Context(t), "orders")
	require.NoError(t, err)
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
	require.Empty(t, warned, "one failure, one warning")
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	require.NoError(t, run(t, r.Catalog)())
	r.pool.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ctx), "Run ends without a database too")
	require.Error(t, r.Purge(t.Context()))
}
