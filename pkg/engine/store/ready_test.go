package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// readyIn returns the time until ready_at of the only cursor, by the clock of the database. ok is
// false if ready_at is NULL.
func (b *bench) readyIn() (d time.Duration, ok bool) {
	b.t.Helper()
	var seconds pgtype.Float8
	b.scan(`SELECT extract(epoch FROM ready_at - clock_timestamp())::float8 FROM belfry.cursor`, nil, &seconds)
	return time.Duration(seconds.Float64 * float64(time.Second)), seconds.Valid
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	enginetest.Exec(b.t, b.pool, query, args...)
	b.OnResync("", events.Peer) // no event announces a change that a test makes to the tables
}

// The test checks each row of the table of ready_at in docs/design.md.
func TestReadyAt(t *testing.T) {
	b := newBench(t)
	b.push("p", "m1")
	d := b.pop(request("g", 1))
	in, ok := b.readyIn()
	require.True(t, ok)
	require.InDelta(t, 300, in.Seconds(), 30, "a leased cursor is ready at the end of the lease")

	b.ack(d, queue.AckCompleted, d.Messages...)
	_, ok = b.readyIn()
	require.False(t, ok, "ready_at of a drained cursor is NULL")

	b.push("p", "m2", "m3")
	in, ok = b.readyIn()
	require.True(t, ok, "a push makes the cursor ready")
	require.LessOrEqual(t, in, time.Duration(0), "a cursor with waiting messages is ready now")

	d = b.pop(request("g", 1))
	b.ack(d, queue.AckCompleted, d.Messages...)
	in, ok = b.readyIn()
	require.True(t, ok && in <= 0, "after an ack that leaves messages, the cursor is ready now")

	b.exec(`UPDATE belfry.queue SET paused = true`)
	require.Empty(t, b.pop(request("g", 1)).Messages)
	in, ok = b.readyIn()
	require.True(t, ok && in <= 0, "a pause of the queue does not change ready_at")
	b.exec(`UPDATE belfry.queue SET paused = false`)

	b.exec(`UPDATE belfry.partition SET paused = true`)
	require.Empty(t, b.pop(request("g", 1)).Messages)
	_, ok = b.readyIn()
	require.False(t, ok, "a pop that finds a paused partition sets ready_at to NULL")
	b.push("p", "m4")
	_, ok = b.readyIn()
	require.False(t, ok, "a push does not wake a paused partition")
}

func TestAnExpiredLeaseIsRedeliveredAndCountsAnAttempt(t *testing.T) {
	b := newBench(t)
	b.push("p", "m1", "m2")
	first := b.pop(request("g", 2))
	require.Equal(t, 1, first.Messages[0].Attempt)
	require.Empty(t, b.pop(request("g", 2)).Messages, "leased")
	b.exec(`UPDATE belfry.cursor SET lease_until = now() - interval '1 second', ready_at = now() - interval '1 second'`)

	results := b.ack(first, queue.AckCompleted, first.Messages...)
	require.Equal(t, "Invalid or expired lease", results[0].Error)
	second := b.pop(request("g", 2))
	require.Equal(t, []string{"m1", "m2"}, transactionIDs(second))
	require.Equal(t, 2, second.Messages[0].Attempt, "a delivery to a vanished consumer counts as an attempt")
	require.NotEqual(t, first.LeaseID, second.LeaseID)

	require.NoError(t, b.Release(t.Context(), second.LeaseID))
	third := b.pop(request("g", 2))
	require.Equal(t, 2, third.Messages[0].Attempt, "a released delivery does not count as an attempt")
	_, err := b.Extend(t.Context(), first.LeaseID, time.Minute)
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
	until, err := b.Extend(t.Context(), third.LeaseID, time.Hour)
	require.NoError(t, err)
	require.InDelta(t, 3600, time.Until(until).Seconds(), 60)
	until, err = b.Extend(t.Context(), third.LeaseID, time.Second)
	require.NoError(t, err)
	require.InDelta(t, 3600, time.Until(until).Seconds(), 60, "an extension never shortens the lease")
}

// A delayed message delays the messages after it. The cursor is ready at the end of its delay.
func TestADelayedMessageHoldsBackTheMessagesAfterIt(t *testing.T) {
	b := newBench(t, "g")
	items := []queue.PushItem{item("p", "now"), item("p", "later"), item("p", "behind")}
	items[1].VisibleAt = time.Now().Add(time.Hour)
	_, err := b.Push(t.Context(), items)
	require.NoError(t, err)

	d := b.pop(request("g", 10))
	require.Equal(t, []string{"now"}, transactionIDs(d))
	b.ack(d, queue.AckCompleted, d.Messages...)
	require.Empty(t, b.pop(request("g", 10)).Messages)
	in, ok := b.readyIn()
	require.True(t, ok)
	require.InDelta(t, 3600, in.Seconds(), 60)

	b.exec(`UPDATE belfry.message SET visible_at = now()`)
	b.exec(`UPDATE belfry.cursor SET ready_at = now()`) // as if the delay had ended
	require.Equal(t, []string{"later", "behind"}, transactionIDs(b.pop(request("g", 10))))
}

// Each push moves the end of the window. A pop at the old end delivers nothing and writes the new
// end into ready_at.
func TestEachPushMovesTheWindowBuffer(t *testing.T) {
	b := newBench(t)
	b.push("p", "m1")
	b.exec(`UPDATE belfry.queue SET window_buffer = 3600`)
	require.Empty(t, b.pop(request("g", 10)).Messages)
	in, ok := b.readyIn()
	require.True(t, ok)
	require.InDelta(t, 3600, in.Seconds(), 60)

	b.exec(`UPDATE belfry.partition SET last_push_at = now() - interval '59 minutes'`)
	b.push("p", "m2")
	b.exec(`UPDATE belfry.cursor SET ready_at = now()`) // as if the old end of the window had come
	require.Empty(t, b.pop(request("g", 10)).Messages)
	in, _ = b.readyIn()
	require.InDelta(t, 3600, in.Seconds(), 60, "the window begins at the last push")

	b.exec(`UPDATE belfry.partition SET last_push_at = now() - interval '2 hours'`)
	b.exec(`UPDATE belfry.cursor SET ready_at = now()`)
	require.Len(t, b.pop(request("g", 10)).Messages, 2)
}

// Deleted messages leave holes in the log. The cursor moves over them.
func TestACursorMovesOverDeletedMessages(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "m1", "m2", "m3", "m4")
	b.exec(`DELETE FROM belfry.message WHERE transaction_id IN ('m1', 'm3', 'm4')`)
	d := b.pop(request("g", 10))
	require.Equal(t, []string{"m2"}, transactionIDs(d))
	b.ack(d, queue.AckCompleted, d.Messages...)
	require.Empty(t, b.pop(request("g", 10)).Messages)
	_, ok := b.readyIn()
	require.False(t, ok, "ready_at is NULL if only holes are left")
	b.push("p", "m5")
	require.Equal(t, []string{"m5"}, transactionIDs(b.pop(request("g", 10))))
}

// A wake waits for the session that has locked the cursor. If it skipped the cursor, the cursor
// would be stranded.
func TestAWakeWaitsForALockedCursor(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "m1")
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	partition := b.onlyPartition()
	release := b.lockRows(holdCursors)
	woken := make(chan error, 1)
	go func() {
		_, err := b.pool.Exec(t.Context(), sql.Query("engine/store/wake"), []int64{partition})
		woken <- err
	}()
	awaitLockWait(t, b)
	release()
	require.NoError(t, <-woken)
	require.Zero(t, b.stranded())
}

// The cursor skips a dead letter in the middle of a delivery. The messages before it are still
// delivered.
func TestADeadLetterOutOfOrderLosesNoMessage(t *testing.T) {
	b := newBench(t)
	b.push("p", "m1", "m2", "m3", "m4")
	d := b.pop(request("g", 10))
	results := b.ack(d, queue.AckDead, d.Messages[2])
	require.True(t, results[0].Success && results[0].DeadLettered)
	require.False(t, results[0].LeaseReleased)
	require.NoError(t, b.Release(t.Context(), d.LeaseID))
	d = b.pop(request("g", 10))
	require.Equal(t, []string{"m1", "m2"}, transactionIDs(d), "a delivery ends before a skipped message")
	results = b.ack(d, queue.AckCompleted, d.Messages...)
	require.True(t, results[1].LeaseReleased)
	d = b.pop(request("g", 10))
	require.Equal(t, []string{"m4"}, transactionIDs(d))
	b.ack(d, queue.AckCompleted, d.Messages...)
	_, ok := b.readyIn()
	require.False(t, ok)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM belfry.dead_letter l JOIN belfry.message m USING (partition_id, seq) WHERE m.transaction_id = 'm3'`))
}

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

// A wake costs as much as the rest of an ack. A single ack or autoAck pop runs a wake only if it sets
// ready_at to NULL during a push to the partition.
func TestAnAckWakesOnlyDuringAPush(t *testing.T) {
	b := newBench(t, "g", "consuming")
	wakes := b.countWakes()
	consuming := request("consuming", 1, withAutoAck(true))
	consume := func(messages int) {
		d := b.pop(request("g", 1))
		require.Len(t, d.Messages, messages)
		b.ack(d, queue.AckCompleted, d.Messages...)
		require.Len(t, b.pop(consuming).Messages, messages)
	}
	b.push("p", "1", "2")
	require.Equal(t, 1, wakes(), "the push runs a wake")
	consume(1)
	require.Zero(t, wakes(), "a message is left")
	consume(1)
	require.Zero(t, wakes(), "the cursor is drained, and no push runs")

	b.push("p", "3")
	require.Equal(t, 1, wakes())
	push := b.begin(b.connect())
	enginetest.Exec(t, push, `SELECT 1 FROM belfry.partition FOR NO KEY UPDATE`)
	consume(1)
	require.Equal(t, 2, wakes(), "the ack and the pop run a wake each")
	require.NoError(t, push.Rollback(t.Context()))
}

// A push waits for a transaction that sets ready_at to NULL and runs no wake after its commit. So the
// wake of the push finds the cursor (I3).
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
			b := newBench(t, "g")
			b.push("p", "1")
			var partition, group int64
			b.scan(`SELECT partition_id, group_id FROM belfry.cursor`, nil, &partition, &group)
			statement, args := drain(b, partition, group)
			tx := b.begin(b.connect())
			enginetest.Exec(t, tx, statement, args...)
			pushed := b.beginPush(item("p", "2"))
			awaitLockWait(t, b)
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, (<-pushed).err)
			require.Zero(t, b.stranded())
			require.Equal(t, []string{"2"}, transactionIDs(b.pop(request("g", 1))))
		})
	}
}
