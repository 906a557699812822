package catalog_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A change keeps what it does not touch, and of many changes at once none is lost.
func TestChangesAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	_, _, err := r.Change(t.Context(), "none", func(*catalog.Settings) { t.Error("called for a queue that does not exist") })
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
	r.configure("q", func(o *queue.Options) { o.RetryLimit = 3; o.Priority = 0 })
	var all sync.WaitGroup
	var errs [20]error
	for i := range errs {
		all.Go(func() {
			_, _, errs[i] = r.Change(t.Context(), "q", func(set *catalog.Settings) { set.Options.Priority++; set.Namespace += "x" })
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	now, _ := r.stored("q")
	require.Equal(t, []any{int64(20), int64(3), 20}, []any{now.Options.Priority, now.Options.RetryLimit, len(now.Namespace)})
}
