package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// failRedriven makes messages dead letters of group g and redrives them. Then the message with the
// index fails gets a failed ack and a retry delay of ten minutes.
func (b *bench) failRedriven(fails int, ids ...string) {
	b.t.Helper()
	b.register("g")
	b.option("retry_delay = 600000, retry_backoff = 2, retry_delay_max = 3600000")
	b.push("p", ids...)
	b.deadLetter(ids...)
	require.Equal(b.t, len(ids), b.redrive())
	d := b.pop(request("g", 9))
	require.Equal(b.t, ids, transactionIDs(d))
	require.True(b.t, b.ack(d, queue.AckFailed, d.Messages[fails])[0].LeaseReleased)
}

// endRedriveRetryDelays ends the retry delay of every redriven message.
func (b *bench) endRedriveRetryDelays() {
	b.t.Helper()
	b.exec(`UPDATE belfry.redrive SET retry_at = statement_timestamp() WHERE retry_at IS NOT NULL`)
	b.exec(`UPDATE belfry.cursor SET ready_at = statement_timestamp() WHERE lease_id IS NULL`)
}

func TestAFailedRedrivenMessageIsDelayed(t *testing.T) {
	b := newBench(t)
	b.failRedriven(0, "a")
	for _, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
		b.requireRetryDelay(want)
		empty := b.pop(request("g", 9))
		require.Empty(t, empty.Messages)
		require.True(t, empty.HasNext, "the empty answer contains the end of the delay")
		require.Greater(t, empty.NextIn, want*8/10-time.Minute)
		b.endRedriveRetryDelays()
		d := b.pop(request("g", 9))
		require.Equal(t, []string{"a"}, transactionIDs(d))
		b.ack(d, queue.AckFailed, d.Messages...)
	}
	b.requireRedrives(0)
	require.Len(t, b.deadLetters(), 1, "without retries left, the message becomes a dead letter without a delay")
}

// Redriven messages keep their order. Messages after a delayed message wait for it. Messages before
// it do not wait.
func TestRedrivenMessagesWaitForADelayedOneBeforeThem(t *testing.T) {
	b := newBench(t)
	b.failRedriven(1, "a", "b", "c")
	d := b.pop(request("g", 9))
	require.Equal(t, []string{"a"}, transactionIDs(d))
	b.ack(d, queue.AckCompleted, d.Messages...)
	b.requireRetryDelay(10 * time.Minute)
	b.endRedriveRetryDelays()
	require.Equal(t, []string{"b", "c"}, transactionIDs(b.pop(request("g", 9))))
}

// The log does not wait for a delayed redriven message. Every operation that drains the log sets
// ready_at to the end of the delay.
func TestTheLogDoesNotWaitForADelayedRedrivenMessage(t *testing.T) {
	b := newBench(t)
	heard := &receiver{}
	b.Observe(heard)
	b.failRedriven(0, "a")
	heard.ready = nil
	b.push("p", "1", "2", "3")
	require.NotEmpty(t, heard.ready, "the push announces the cursor")
	d := b.pop(request("g", 1))
	require.Equal(t, []string{"1"}, transactionIDs(d))
	require.NoError(t, b.Release(t.Context(), d.LeaseID))
	d = b.pop(request("g", 1))
	b.ack(d, queue.AckCompleted, d.Messages...)

	req := request("g", 2, withAutoAck(true))
	require.Equal(t, []string{"2", "3"}, transactionIDs(b.pop(req)))
	b.requireRetryDelay(10 * time.Minute)

	for name, run := range map[string]func(){
		"deleted messages": func() {
			b.push("p", "4")
			b.exec(`DELETE FROM belfry.message WHERE transaction_id = '4'`)
			require.Empty(t, b.pop(req).Messages)
		},
		"a due instant too early": func() {
			b.exec(`UPDATE belfry.cursor SET ready_at = statement_timestamp()`)
			require.Empty(t, b.pop(req).Messages)
		},
		"a seek": func() {
			b.exec(`SELECT belfry.seek_cursors(ARRAY (SELECT id FROM belfry.partition), (SELECT group_id FROM belfry.cursor), 'infinity')`)
		},
		"a deletion of one message": func() {
			b.push("p", "5")
			b.exec(`SELECT belfry.delete_message((SELECT id FROM belfry.partition), '5')`)
		},
		"an option": b.recomputeReady,
	} {
		run()
		b.requireRetryDelay(10 * time.Minute)
		b.push("p", name)
		d := b.pop(request("g", 9))
		require.Equal(t, []string{name}, transactionIDs(d), "after "+name)
		b.ack(d, queue.AckCompleted, d.Messages...)
	}
	b.option("retry_delay = 0")
	b.recomputeReady()
	require.Equal(t, []string{"a"}, transactionIDs(b.pop(request("g", 9))), "without retryDelay the message is due")
}

func (b *bench) onlyPartition() (id int64) {
	b.t.Helper()
	b.scan(`SELECT id FROM belfry.partition`, nil, &id)
	return id
}

// A failed ack in SQL causes the same retry delay. The delay strands no message.
func TestARedrivenMessageThatFailedInSQLIsDelayed(t *testing.T) {
	b := newBench(t, "g")
	b.option("retry_delay = 600000, retry_backoff = 2, retry_delay_max = 3600000")
	b.push("p", "a")
	b.deadLetter("a")
	b.redrive()
	conn := b.connect()
	popped := b.sqlPop(conn, "g", 9, 1)
	require.Equal(t, []string{"a"}, sqlIDs(popped))
	_, err := sqlAck(t.Context(), conn, popped[0].Lease, nil, "failed")
	require.NoError(t, err)
	require.Empty(t, b.sqlPop(conn, "g", 9, 1))
	require.Empty(t, b.pop(request("g", 9)).Messages)
	b.requireRetryDelay(10 * time.Minute)
	b.push("p", "1")
	popped = b.sqlPop(conn, "g", 9, 1)
	require.Equal(t, []string{"1"}, sqlIDs(popped))
	_, err = sqlAck(t.Context(), conn, popped[0].Lease, nil, "completed")
	require.NoError(t, err)
	require.Empty(t, b.pop(request("g", 9)).Messages)
	b.requireRetryDelay(10 * time.Minute)
	b.endRedriveRetryDelays()
	require.Equal(t, []string{"a"}, sqlIDs(b.sqlPop(conn, "g", 9, 1)))
}

// A SQL consumer fails a redriven message. An instance sets ready_at to the end of the retry delay,
// so that belfry.pop does not examine the cursor earlier.
func TestTheServiceSettlesARetryDelayOfASQLConsumer(t *testing.T) {
	b := newBench(t)
	b.redriven("0", "a")
	b.option("retry_delay = 600000, retry_backoff = 2, retry_delay_max = 3600000")
	startRun(t, b.Store)
	conn := b.connect()
	b.sqlAck(conn, b.sqlPop(conn, "g", 1, 1)[0].Lease, nil, "retry")
	var group int64
	b.scan(`SELECT group_id FROM belfry.cursor`, nil, &group)
	require.Zero(t, b.count(sql.Query("engine/store/settle_drained"), []int64{b.onlyPartition()}, []int64{group}), "a message without a retry delay stays due")

	b.sqlAck(conn, b.sqlPop(conn, "g", 1, 1)[0].Lease, nil, "failed")
	b.OnReady([]queue.Ready{{Group: group, Partition: b.onlyPartition()}}, events.SQL)
	require.Eventually(t, func() (rests bool) {
		b.scan(`SELECT coalesce(c.ready_at = r.retry_at, false) FROM belfry.cursor c, belfry.redrive r`, nil, &rests)
		return rests
	}, time.Minute, 5*time.Millisecond)
	b.requireRetryDelay(10 * time.Minute)
}

// belfry.pop also makes a redriven message a dead letter after maxDeliveries, and then delivers
// from the log.
func TestASQLPopGivesUpARedrivenMessage(t *testing.T) {
	b := newBench(t)
	b.redriven("1", "a")
	b.push("p", "1")
	conn := b.connect()
	require.Equal(t, []string{"a"}, sqlIDs(b.sqlPop(conn, "g", 1, 1)))
	b.exec(`UPDATE belfry.cursor SET ready_at = statement_timestamp(), lease_until = statement_timestamp()`)
	require.Empty(t, b.sqlPop(conn, "g", 1, 1))
	b.requireRedrives(0)
	require.Len(t, b.deadLetters(), 1)
	require.Equal(t, []string{"1"}, sqlIDs(b.sqlPop(conn, "g", 1, 1)))
}

// A group that starts in the future gets no message from before its start while a redriven message
// is delayed.
func TestARedriveDelayDoesNotStartTheLogOfALaterGroup(t *testing.T) {
	b := newBench(t)
	b.failRedriven(0, "a")
	b.push("p", "1")
	b.exec(`UPDATE belfry.cursor SET start_at = clock_timestamp() + interval '1 hour', ready_at = statement_timestamp()`)
	require.Empty(t, b.pop(request("g", 9)).Messages)
	b.requireRetryDelay(10 * time.Minute)
}

// If the delay of a redriven message ends before the next message of the log is visible, ready_at
// is the end of this delay.
func TestARedriveDelayMayEndBeforeTheLogIsDue(t *testing.T) {
	b := newBench(t)
	b.failRedriven(0, "a")
	b.push("p", "1", "in an hour")
	b.exec(`UPDATE belfry.message SET visible_at = clock_timestamp() + interval '1 hour' WHERE transaction_id = 'in an hour'`)
	b.exec(`UPDATE belfry.partition SET visible_until = clock_timestamp() + interval '1 hour'`)
	// The claim sets the right ready_at, before its wake runs.
	const claim = `SELECT count(*) FILTER (WHERE k.item = 2)
		FROM belfry.cursor c CROSS JOIN LATERAL belfry.claim(c.group_id, NULL, 1, 1, NULL) AS k`
	var taken int
	b.scan(claim, nil, &taken)
	require.Equal(t, 1, taken)
	b.requireRetryDelay(10 * time.Minute)
	b.exec(`UPDATE belfry.cursor SET ready_at = statement_timestamp()`)
	b.scan(claim, nil, &taken)
	require.Zero(t, taken)
	b.requireRetryDelay(10 * time.Minute)
	b.endRedriveRetryDelays()
	require.Equal(t, []string{"a"}, transactionIDs(b.pop(request("g", 1))))
}

// A push commits just before a claim sets ready_at to the end of a retry delay. The wake after the
// claim finds the pushed message (I3).
func TestTheWakeAfterAClaimFindsAConcurrentPush(t *testing.T) {
	b := newBench(t)
	b.failRedriven(0, "a")
	b.exec(`CREATE FUNCTION belfry.push_beside() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		    UPDATE belfry.partition p SET last_seq = 2, last_push_at = clock_timestamp() WHERE p.last_seq = 1;
		    IF FOUND THEN
		        INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		        VALUES ((SELECT p.id FROM belfry.partition p), 2, clock_timestamp(), gen_random_uuid(), 'beside', '{}');
		    END IF;
		    RETURN NULL;
		END $$`)
	b.exec(`UPDATE belfry.cursor SET ready_at = statement_timestamp()`)
	b.exec(`CREATE TRIGGER push_beside AFTER UPDATE ON belfry.cursor EXECUTE FUNCTION belfry.push_beside()`)
	require.Equal(t, []string{"beside"}, transactionIDs(b.pop(request("g", 1))))
}
