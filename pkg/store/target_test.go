package store_test

import (
	"testing"

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

	_, err := b.pool.Exec(t.Context(), sql.Query("queue_delete"), "q")
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
