package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// retryDelayLeft returns the remaining retry delay of the only cursor, computed from its ready_at.
func (b *bench) retryDelayLeft() time.Duration {
	b.t.Helper()
	var seconds float64
	b.scan(`SELECT coalesce(extract(epoch FROM ready_at - clock_timestamp()), -1)::float8 FROM belfry.cursor`, nil, &seconds)
	return time.Duration(seconds * float64(time.Second))
}

// endRetryDelays ends the retry delay of every cursor.
func (b *bench) endRetryDelays() {
	b.t.Helper()
	b.exec(`UPDATE belfry.cursor SET retry_at = statement_timestamp(), ready_at = statement_timestamp()`)
}

// recomputeReady recomputes ready_at of every cursor, like a change of queue options.
func (b *bench) recomputeReady() {
	b.t.Helper()
	var partitions, groups []int64
	b.scan(`SELECT array_agg(partition_id), array_agg(group_id) FROM belfry.cursor`, nil, &partitions, &groups)
	b.exec(sql.Query("engine/catalog/recompute_ready"), partitions, groups)
}

// requireRetryDelay requires a retry delay of want, with a jitter of 20 %. It tolerates a pause of the
// machine of one minute after the delay began.
func (b *bench) requireRetryDelay(want time.Duration) {
	b.t.Helper()
	left := b.retryDelayLeft()
	require.Greater(b.t, left, want*8/10-time.Minute)
	require.LessOrEqual(b.t, left, want*12/10)
}

// The answer of an empty pop and the announcement contain the end of the delay.
func TestAFailedAckDelaysTheNextDelivery(t *testing.T) {
	b := newBench(t, "g")
	heard := &receiver{}
	b.Observe(heard)
	b.option("retry_delay = 600000, retry_backoff = 2, retry_delay_max = 3600000")
	b.push("p", "1", "2")
	for _, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
		d := b.pop(request("g", 9))
		require.Len(t, d.Messages, 2)
		heard.ready = nil
		b.ack(d, queue.AckFailed, d.Messages...)
		require.InDelta(t, b.retryDelayLeft(), heard.ready[0].In, float64(time.Minute))
		b.requireRetryDelay(want)
		empty := b.pop(request("g", 9))
		require.Empty(t, empty.Messages)
		require.True(t, empty.HasNext, "the empty answer says when the delay ends")
		require.Greater(t, empty.NextIn, want*8/10-time.Minute)
		b.endRetryDelays()
	}
	d := b.pop(request("g", 9))
	b.ack(d, queue.AckFailed, d.Messages[0])
	b.ack(d, queue.AckRetry, d.Messages[1])
	require.Equal(t, []string{"2"}, transactionIDs(b.pop(request("g", 9))), "a dead letter delays no message")
}

func TestOnlyProgressEndsARetryDelay(t *testing.T) {
	b := newBench(t, "g")
	b.option("retry_delay = 600000, retry_backoff = 2, retry_delay_max = 3600000")
	b.push("p", "1", "2", "3")
	d := b.pop(request("g", 2))
	b.ack(d, queue.AckFailed, d.Messages[0])
	partition := b.onlyPartition()
	unfenced := d
	unfenced.LeaseID = queue.ID{}
	for name, run := range map[string]func(){
		"a push":              func() { b.push("p", "4") },
		"a wake":              func() { b.exec(sql.Query("engine/store/wake"), []int64{partition}) },
		"a change of options": b.recomputeReady,
		"the end of a pause": func() {
			b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
			b.exec(sql.Query("engine/store/wake"), []int64{partition})
		},
		"a restart":                              func() { _, err := b.Heal(t.Context()); require.NoError(t, err) },
		"a stale ack":                            func() { b.ack(d, queue.AckFailed, d.Messages[0]) },
		"a retry without a lease":                func() { b.ack(unfenced, queue.AckRetry, d.Messages[0]) },
		"a dead letter after the failed message": func() { b.ack(unfenced, queue.AckDead, d.Messages[1]) },
	} {
		run()
		left := b.retryDelayLeft()
		require.Greater(t, left, 7*time.Minute, name)
		require.LessOrEqual(t, left, 12*time.Minute, name)
	}
	b.ack(unfenced, queue.AckCompleted, d.Messages[0])
	require.Equal(t, []string{"3", "4"}, transactionIDs(b.pop(request("g", 9))), "completing the failed message ends the delay")
}

// A failed ack or a retry may ask for a pause. The pause replaces the retry delay of the queue, also for
// a redriven message. A retry does not count as a failure.
func TestAnAckAsksForAPause(t *testing.T) {
	t.Parallel()
	for name, redriven := range map[string]bool{"of the log": false, "redriven": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			b.option("retry_delay = 60000, retry_backoff = 2, retry_delay_max = 3600000")
			b.push("p", "a")
			if redriven {
				b.deadLetter("a")
				require.Equal(t, 1, b.redrive())
			}
			fail := func(status queue.AckStatus, pause time.Duration) {
				t.Helper()
				b.endRetryDelays()
				b.endRedriveRetryDelays()
				d := b.pop(request("g", 9))
				items := acks(d, status, d.Messages...)
				items[0].RetryAfter = &pause
				results, err := b.Ack(t.Context(), items)
				require.NoError(t, err)
				require.True(t, results[0].Success && results[0].LeaseReleased && !results[0].DeadLettered)
			}
			for _, status := range []queue.AckStatus{queue.AckRetry, queue.AckFailed} {
				fail(status, 40*time.Minute)
				left := b.retryDelayLeft()
				require.LessOrEqual(t, left, 40*time.Minute, "a pause has no jitter")
				require.Greater(t, left, 39*time.Minute)
				fail(status, 0)
				require.LessOrEqual(t, b.retryDelayLeft(), time.Duration(0))
			}
			fail(queue.AckRetry, time.Hour)
			fail(queue.AckFailed, time.Hour) // this is the third failure, because the retries did not count
			b.endRetryDelays()
			b.endRedriveRetryDelays()
			d := b.pop(request("g", 9))
			require.True(t, b.ack(d, queue.AckFailed, d.Messages...)[0].DeadLettered)
		})
	}
}

// If several acks of one call ask for pauses, the longest pause is used.
func TestTheLongestPauseOfACallIsUsed(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a", "b", "c")
	d := b.pop(request("g", 9))
	items := acks(d, queue.AckRetry, d.Messages...)
	items[0].RetryAfter, items[1].RetryAfter = new(time.Minute), new(time.Hour)
	_, err := b.Ack(t.Context(), items)
	require.NoError(t, err)
	require.Greater(t, b.retryDelayLeft(), 50*time.Minute)
}

func TestSQLAsksForAPause(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "a")
	b.exec(`SELECT belfry.ack(lease, status => 'retry', retry_after => '40 minutes') FROM belfry.pop('q', 'g')`)
	require.Greater(t, b.retryDelayLeft(), 39*time.Minute)
	b.endRetryDelays()
	lease := b.pop(request("g", 1)).LeaseID
	for _, call := range []string{`status => 'failed', retry_after => '-1 s'`, `status => 'failed', retry_after => '2 years'`, `retry_after => '1 s'`} {
		_, err := b.pool.Exec(t.Context(), `SELECT belfry.ack($1, `+call+`)`, lease.String())
		require.ErrorContains(t, err, "retry_after is")
	}
}

// remove deletes one message of the only partition.
func (b *bench) remove(transactionID string) {
	b.t.Helper()
	b.exec(`SELECT belfry.delete_message(id, $1) FROM belfry.partition`, transactionID)
}

// A retry delay belongs to the failed message. It ends when that message is deleted, or when retryDelay is set to 0.
// A later release of a delivery does not restore it.
func TestAnEndedRetryDelayIsNotRestored(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(b *bench)
		next string
	}{
		"the message is deleted": {func(b *bench) { b.remove("1") }, "2"},
		"all are deleted":        {func(b *bench) { b.remove("1"); b.remove("2"); b.push("p", "3") }, "3"},
		"retryDelay is 0":        {func(b *bench) { b.option("retry_delay = 0"); b.recomputeReady() }, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			b.option("retry_delay = 600000, retry_backoff = 2, retry_delay_max = 3600000")
			b.push("p", "1", "2")
			d := b.pop(request("g", 1))
			b.ack(d, queue.AckFailed, d.Messages...)
			c.end(b)
			for range 2 {
				d = b.pop(request("g", 1))
				require.Equal(t, []string{c.next}, transactionIDs(d))
				require.NoError(t, b.Release(t.Context(), d.LeaseID))
			}
		})
	}
}

// The message after a deleted message keeps its own number of attempts. It does not get the number
// of the deleted message.
func TestTheMessageAfterADeletedMessageKeepsItsAttempts(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1", "2")
	for range 3 {
		require.Len(t, b.pop(request("g", 1)).Messages, 1)
		b.endLeases()
	}
	require.Len(t, b.pop(request("g", 2)).Messages, 2)
	b.remove("1")
	b.endLeases()
	d := b.pop(request("g", 2))
	require.Equal(t, []string{"2"}, transactionIDs(d))
	require.Equal(t, 2, d.Messages[0].Attempt)
}
