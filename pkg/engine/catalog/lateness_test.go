package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func TestLateness(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	late, err := r.Lateness(enginetest.Context(t))
	require.NoError(t, err)
	require.Zero(t, late.Oldest, "nothing is ready")

	strict := r.queueKey(r.configure("strict", func(o *queue.Options) { o.MaxWaitTimeSeconds = 60 }))
	r.fill(strict, size{partitions: 2, messages: 2, groups: 2})
	r.fill(r.queueKey(r.configure("easy")), size{partitions: 2, messages: 2, groups: 2})
	r.exec("UPDATE belfry.message SET created_at = clock_timestamp() - interval '50 s'")
	late, err = r.Lateness(enginetest.Context(t))
	require.NoError(t, err)
	require.InDelta(t, 50, late.Oldest.Seconds(), enginetest.Patience.Seconds())
	require.Zero(t, late.Groups, "nothing is older than its target")

	r.exec("UPDATE belfry.message SET created_at = clock_timestamp() - interval '2 h'")
	late, err = r.Lateness(enginetest.Context(t))
	require.NoError(t, err)
	require.Greater(t, late.Oldest, 2*time.Hour-time.Minute)
	require.EqualValues(t, 2, late.Groups, "both groups of the queue with a target")

	r.exec("UPDATE belfry.cursor SET ready_at = clock_timestamp() + interval '1 h'")
	late, err = r.Lateness(enginetest.Context(t))
	require.NoError(t, err)
	require.Zero(t, late.Oldest, "a leased message does not wait")
}
