package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// countWakes makes the database record each wake. The returned function returns the number of wakes
// since its last call.
func (b *bench) countWakes() func() int {
	b.t.Helper()
	b.exec(`CREATE TABLE belfry.woken (partitions bigint[])`)
	b.exec(`ALTER FUNCTION belfry.wake_partitions(bigint[]) RENAME TO wake_really`)
	b.exec(`CREATE FUNCTION belfry.wake_partitions(p bigint[])
		RETURNS TABLE(group_id bigint, partition_id bigint, ready_in double precision) LANGUAGE sql AS $$
			INSERT INTO belfry.woken VALUES (p);
			SELECT * FROM belfry.wake_really(p) $$`)
	return func() (n int) {
		b.t.Helper()
		require.NoError(b.t, b.pool.QueryRow(b.t.Context(),
			`WITH noted AS (DELETE FROM belfry.woken RETURNING 1) SELECT count(*) FROM noted`).Scan(&n))
		return n
	}
}

// A wake costs as much as the rest of an ack. An ack runs it only for a cursor that it leaves
// without ready_at.
func TestAnAckWakesOnlyCursorsWithoutReadyAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1", "2")
	wakes := b.countWakes()
	for _, left := range []int{0, 1} {
		d := b.pop(request("g", 1))
		require.Len(t, d.Messages, 1)
		require.Zero(t, wakes(), "a claim needs no wake")
		b.ack(d, queue.AckCompleted, d.Messages...)
		require.Equal(t, left, wakes())
	}
}
