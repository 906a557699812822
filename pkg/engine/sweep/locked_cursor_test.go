package sweep

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
)

// A SQL consumer holds its cursor for as long as its transaction lasts. A sweep leaves out that
// partition, releases its lock and continues with the others.
func TestASweepDoesNotWaitForALockedCursor(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("a", 2)
	r.push("b", 2)
	require.Len(t, r.pop("g", 4).Messages, 4, "the pop creates the cursors of the group")
	r.options("retention_enabled = true, retention_seconds = 60")
	r.age("a", 1)
	r.age("b", 1)
	r.exec("UPDATE belfry.cursor SET lease_id = NULL, lease_until = NULL, lease_end = NULL, ready_at = now()")

	consumer, err := r.pool.Begin(enginetest.Context(t))
	require.NoError(t, err)
	_, err = consumer.Exec(enginetest.Context(t), `SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		WHERE p.name = 'a' FOR NO KEY UPDATE OF c`)
	require.NoError(t, err)

	r.sweep(r.retention())
	require.Equal(t, []int64{1, 2}, r.stored("a"))
	require.Equal(t, []int64{2}, r.stored("b"))
	require.EqualValues(t, 1, enginetest.Metric(t, r.reg, "belfry_sweep_failures_total"))
	r.push("a", 1) // the partition is not locked

	require.NoError(t, consumer.Rollback(enginetest.Context(t)))
	r.sweep(r.retention())
	require.Equal(t, []int64{2, 3}, r.stored("a"))
}
