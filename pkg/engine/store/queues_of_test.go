package store_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// The check of an allowed partition that is remembered needs no query, as the closed pool shows. A refused partition needs
// one, like a partition that does not exist.
func TestOnlyAnAllowedPartitionNeedsNoLookUp(t *testing.T) {
	t.Parallel()
	pool := newPool(t, pgtest.Database(t), time.Minute)
	s := newStore(t, pool, prometheus.NewRegistry(), nil)
	pushed, err := s.Push(t.Context(), []queue.PushItem{item("p", "a")})
	require.NoError(t, err)
	id, unknown := pushed[0].PartitionID, queue.NewID()
	queuesOf := func(allowed bool, ids ...queue.ID) (map[queue.ID]string, error) {
		return s.QueuesOf(t.Context(), ids, func(at int, name string) bool { return allowed && ids[at] == id && name == "q" })
	}
	for _, allowed := range []bool{false, true} {
		found, err := queuesOf(allowed, unknown, id, id)
		require.NoError(t, err)
		require.Equal(t, map[queue.ID]string{id: "q"}, found)
	}
	pool.Close()
	found, err := queuesOf(true, id)
	require.NoError(t, err)
	require.Equal(t, map[queue.ID]string{id: "q"}, found)
	_, err = queuesOf(false, id)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	_, err = queuesOf(true, unknown)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
}
