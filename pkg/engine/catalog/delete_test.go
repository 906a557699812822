package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

func TestDeleteOfALargeQueueAnswersFirstAndPurgesLater(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	old := r.configure("orders")
	key, other := r.queueKey(old), r.queueKey(r.configure("other"))
	r.fill(key, size{partitions: 3000, messages: 5, groups: 2, deadLetters: 2})
	r.fill(other, size{partitions: 20, messages: 5, groups: 2, deadLetters: 2})
	h, kept := r.holdings(key), r.holdings(other)
	before, untouched := r.count(h), r.count(kept)
	require.Equal(t, rows{queues: 1, partitions: 3001, messages: 15000, groups: 2, cursors: 6000, deadLetters: 12000}, before)

	// Another session locks a message and a dead letter. Delete waits for neither.
	reader := enginetest.Connect(t, r.dsn)
	_, err := reader.Exec(enginetest.Context(t), "BEGIN; SELECT FROM belfry.message FOR UPDATE; SELECT FROM belfry.dead_letter FOR UPDATE")
	require.NoError(t, err)
	watch := stopwatch.Start(t)
	existed, err := r.Delete(enginetest.Context(t), "orders")
	require.NoError(t, err)
	require.True(t, existed)
	watch.Within(t, enginetest.Patience/3, "Delete does not wait for the other session")
	after := r.count(h)
	require.Equal(t, before.messages, after.messages, "the purge deletes the rows later")
	require.Equal(t, before.cursors, after.cursors, "the purge deletes the cursors later, and no verb reads them any more")
	existed, err = r.Delete(enginetest.Context(t), "orders")
	require.NoError(t, err)
	require.False(t, existed)

	// The name is free before anything is purged.
	fresh := r.configure("orders")
	require.NotEqual(t, old.QueueID, fresh.QueueID)
	require.NotEqual(t, old.PartitionID, fresh.PartitionID)
	newKey := r.queueKey(fresh)
	r.fill(newKey, size{partitions: 10, messages: 1, groups: 1, deadLetters: 1})
	current := r.holdings(newKey)
	wanted := r.count(current)
	_, err = reader.Exec(enginetest.Context(t), "COMMIT")
	require.NoError(t, err)

	stop := run(t, r.Catalog)
	enginetest.Await(t, "every row is purged", func() bool { return r.count(h) == rows{} })
	require.NoError(t, stop())
	require.Equal(t, wanted, r.count(current), "the new queue of that name keeps its rows")
	require.Equal(t, untouched, r.count(kept), "the other queue keeps its rows")
}

func TestDeleteOfAnUnknownQueue(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	existed, err := r.Delete(enginetest.Context(t), "orders")
	require.NoError(t, err)
	require.False(t, existed)
}

func TestOneOfManyConcurrentDeletesFindsTheQueue(t *testing.T) {
	t.Parallel()
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
