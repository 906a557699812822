package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// attempts returns the stored failed attempts: seq, number, result, whether the begin is known, error and consumer.
func (b *bench) attempts() (lines []string) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT a.seq || ' ' || a.nth || ' ' || a.result || ' ' || (a.delivered_at IS NOT NULL) || ' ' ||
		coalesce(a.error, '-') || ' ' || coalesce(a.consumer, '-') FROM belfry.attempt a ORDER BY a.partition_id, a.seq, a.group_id, a.nth`)
	require.NoError(b.t, err)
	for rows.Next() {
		var line string
		require.NoError(b.t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(b.t, rows.Err())
	return lines
}

// failWith acknowledges a message with an error, as a consumer.
func (b *bench) failWith(d queue.Delivery, status queue.AckStatus, failure string) {
	b.t.Helper()
	items := acks(d, status, d.Messages[0])
	items[0].Error, items[0].Consumer = failure, "subject worker"
	results, err := b.Ack(b.t.Context(), items)
	require.NoError(b.t, err)
	require.True(b.t, results[0].Success, results[0].Error)
}

// Each way in which a delivery fails writes a row. A delivery that succeeds writes none.
func TestFailedAttemptsAreStored(t *testing.T) {
	b := newBench(t, "g")
	b.option("retry_limit = 1, retry_delay = 0")
	b.push("p", "1", "2")
	d := b.pop(request("g", 2))
	b.ack(d, queue.AckCompleted, d.Messages[0])
	require.Empty(t, b.attempts(), "a completed message has no attempt")
	rest := d
	rest.Messages = d.Messages[1:]
	b.failWith(rest, queue.AckRetry, "busy")
	b.failWith(b.pop(request("g", 2)), queue.AckFailed, "timeout")
	b.retryNow()
	require.Len(t, b.pop(request("g", 2)).Messages, 1)
	b.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp() - interval '1 s', ready_at = clock_timestamp() - interval '1 s'`)
	b.failWith(b.pop(request("g", 2)), queue.AckFailed, "gone")
	require.Equal(t, []string{
		"2 1 4 true busy subject worker", "2 2 2 true timeout subject worker", "2 3 5 true the lease ended without an ack -", "2 4 2 true gone subject worker",
	}, b.attempts())
	require.Equal(t, 1, b.count(`SELECT count(*) FROM belfry.dead_letter`), "the last failure made a dead letter")
	require.True(t, b.holds(`SELECT bool_and(delivered_at BETWEEN failed_at - interval '1 min' AND failed_at + interval '1 s') FROM belfry.attempt`))
}

// A delivery that succeeds calls nothing that stores attempts, so it costs no further statement: it works without these functions.
func TestASuccessStoresNoAttempt(t *testing.T) {
	b := newBench(t, "g")
	b.exec(`DROP FUNCTION belfry.record_attempts(belfry.attempt[])`)
	b.exec(`DROP FUNCTION belfry.record_lost_lease(bigint, bigint, tid, bigint)`)
	for _, name := range []string{"1", "2"} {
		b.push("p", name)
		d := b.pop(request("g", 2))
		require.Len(t, d.Messages, 1)
		b.ack(d, queue.AckCompleted, d.Messages...)
	}
	require.Equal(t, 2, b.count(`SELECT committed FROM belfry.cursor`))
}

// A message keeps its newest 20 attempts, and their numbers go on.
func TestAttemptsOfAMessageAreBounded(t *testing.T) {
	b := newBench(t, "g")
	b.option("retry_limit = 1000, retry_delay = 0")
	b.push("p", "1")
	for range 25 {
		b.failWith(b.pop(request("g", 1)), queue.AckRetry, "again")
	}
	require.Equal(t, 20, b.count(`SELECT count(*) FROM belfry.attempt`))
	require.Equal(t, 25, b.count(`SELECT max(nth) FROM belfry.attempt`))
}

// A SQL consumer's failure is stored with its role. Its lease contains no begin.
func TestFailedAttemptsOfSQLConsumersAreStored(t *testing.T) {
	b := newBench(t, "g")
	b.option("retry_limit = 3, retry_delay = 0")
	b.push("p", "1")
	b.exec(`SELECT belfry.ack(p.lease, NULL, 'failed', 'no stock') FROM belfry.pop('q', 'g') AS p`)
	var role string
	b.scan(`SELECT session_user`, nil, &role)
	require.Equal(t, []string{"1 1 2 false no stock the SQL role " + role}, b.attempts())
	b.exec(`SELECT belfry.delete_message(p.id, '1') FROM belfry.partition p`)
	require.Empty(t, b.attempts(), "the attempts are deleted with the message")
}
