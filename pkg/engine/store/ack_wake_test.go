package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
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

// A wake costs as much as the rest of an ack. A lone ack or autoAck pop runs it only if it leaves the
// cursor without ready_at while a push to the partition is under way.
func TestAnAckWakesOnlyDuringAPush(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g", "consuming")
	wakes := b.countWakes()
	consuming := request("consuming", 1)
	consuming.AutoAck = true
	consume := func(messages int) {
		d := b.pop(request("g", 1))
		require.Len(t, d.Messages, messages)
		b.ack(d, queue.AckCompleted, d.Messages...)
		require.Len(t, b.pop(consuming).Messages, messages)
	}
	b.push("p", "1", "2")
	require.Equal(t, 1, wakes(), "the push")
	consume(1)
	require.Zero(t, wakes(), "a message is left")
	consume(1)
	require.Zero(t, wakes(), "nothing is left, and nothing is pushed")

	b.push("p", "3")
	require.Equal(t, 1, wakes())
	push := b.begin(b.connect())
	_, err := push.Exec(t.Context(), `SELECT 1 FROM belfry.partition FOR NO KEY UPDATE`)
	require.NoError(t, err)
	consume(1)
	require.Equal(t, 2, wakes(), "the ack and the pop")
	require.NoError(t, push.Rollback(t.Context()))
}

// A push waits for a transaction that leaves a cursor without ready_at and runs no wake after its commit.
// So the wake of the push finds the cursor (I3).
func TestAPushWaitsForATransactionWithoutAWake(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]func(b *bench, partition, group int64) (statement string, args []any){
		"an ack": func(b *bench, partition, _ int64) (string, []any) {
			require.Len(b.t, b.pop(request("g", 1)).Messages, 1)
			return sql.Query("engine/store/ack_apply"), b.completes(partition, "g", 1)
		},
		"a pop with autoAck": func(b *bench, _, group int64) (string, []any) {
			return sql.Query("engine/store/claim"), []any{group, nil, 1, 1, nil, nil, nil, false, b.epoch(), nil, true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.register("g")
			b.push("p", "1")
			var partition, group int64
			b.scan(`SELECT partition_id, group_id FROM belfry.cursor`, nil, &partition, &group)
			statement, args := drain(b, partition, group)
			tx := b.begin(b.connect())
			_, err := tx.Exec(t.Context(), statement, args...)
			require.NoError(t, err)
			pushed := make(chan error, 1)
			go func() {
				_, err := b.Push(t.Context(), []queue.PushItem{item("p", "2")})
				pushed <- err
			}()
			require.Eventually(t, func() bool {
				var waiting bool
				b.scan(`SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &waiting)
				return waiting
			}, 30*time.Second, 10*time.Millisecond, "the push does not wait")
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, <-pushed)
			require.Zero(t, b.stranded())
			require.Equal(t, []string{"2"}, transactionIDs(b.pop(request("g", 1))))
		})
	}
}
