package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// A pop says what it looked at: who waits is armed for that, or must arm anew.
func TestPopNamesWhatItLookedAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	req := request("g", 1)
	require.Zero(t, b.pop(req).Target, "there is no queue")

	resolve := func() queue.Target {
		t.Helper()
		target, ok, err := b.Resolve(t.Context(), req)
		require.NoError(t, err)
		require.True(t, ok)
		return target
	}
	b.register()
	first := resolve()
	require.Equal(t, first, b.pop(req).Target)

	_, err := b.pool.Exec(t.Context(), sql.Query("catalog/queue_delete"), "q")
	require.NoError(t, err)
	require.Equal(t, first, resolve(), "it is remembered")
	require.Zero(t, b.pop(req).Target, "it was deleted")

	b.register()
	second := resolve()
	require.NotEqual(t, first, second)
	require.Equal(t, second, b.pop(req).Target)
	b.push("p", "m")
	delivery := b.pop(req)
	require.Equal(t, second, delivery.Target)
	require.Len(t, delivery.Messages, 1)
}

// What a consumer in SQL holds is leased, not deleted: who waits sleeps until it
// is time to look again.
func TestPopNamesWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	req := request("g", 1)
	target, _, err := b.Resolve(t.Context(), req)
	require.NoError(t, err)
	b.push("p", "m")
	b.hold(holdCursors)
	held := b.pop(req)
	require.Empty(t, held.Messages)
	require.True(t, held.HasNext)
	require.Equal(t, target, held.Target)
}

// A pop that waits finds its group deleted: what was stored before is not new to
// the group it makes anew. When its queue was deleted, all that the new one holds
// came after the pop.
func TestWhatIsNewToAGroupMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register()
	b.exec(`UPDATE belfry.queue SET created_at = created_at - interval '1 day'`)
	req := request("g", 9)
	req.WaitingSince, req.Subscription = time.Now().Add(-time.Minute), queue.Subscription{Mode: queue.SubscribeNew}
	require.Empty(t, b.pop(req).Messages)
	b.push("p", "before")
	b.exec(`DELETE FROM belfry.consumer_group`)
	require.Empty(t, b.pop(req).Messages)

	b.exec(`UPDATE belfry.queue SET deleted_at = clock_timestamp()`)
	b.push("p", "in the new queue")
	require.Equal(t, []string{"in the new queue"}, transactionIDs(b.pop(req)))
}
