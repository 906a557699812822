package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// option sets columns of every queue.
func (b *bench) option(assignments string) {
	b.t.Helper()
	b.exec("UPDATE belfry.queue SET " + assignments)
}

// endLeases ends every lease, as if its consumer had crashed and the lease had expired.
func (b *bench) endLeases() {
	b.t.Helper()
	b.exec(`UPDATE belfry.cursor SET lease_until = statement_timestamp(), ready_at = statement_timestamp() WHERE lease_id IS NOT NULL`)
}

// ageMessages makes the first n messages of each partition older.
func (b *bench) ageMessages(n int, by time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE belfry.message SET created_at = created_at - $2::interval WHERE seq <= $1`, n, by)
}

// deadLetters returns the dead letters as "transaction id: text (attempts)".
func (b *bench) deadLetters() []string {
	b.t.Helper()
	var list []string
	b.scan(`SELECT coalesce(array_agg(m.transaction_id || ': ' || d.error || ' (' || d.attempts || ')' ORDER BY d.partition_id, d.seq), '{}')
		FROM belfry.dead_letter d JOIN belfry.message m ON m.partition_id = d.partition_id AND m.seq = d.seq`, nil, &list)
	return list
}

func TestExpiredMessagesAreNotDelivered(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprint("autoAck ", autoAck), func(t *testing.T) {
			b := newBench(t, "g")
			b.option("expire_after_seconds = 60")
			b.push("p", "1", "2", "3")
			b.push("p", "4", "5")
			b.ageMessages(3, time.Minute)
			req := request("g", 9, withAutoAck(autoAck))
			require.Equal(t, []string{"4", "5"}, transactionIDs(b.pop(req)))
			var expired, committed int64
			b.scan(`SELECT expired, committed FROM belfry.cursor`, nil, &expired, &committed)
			require.EqualValues(t, 3, expired)
			require.EqualValues(t, 3, enginetest.Metric(t, b.reg, "belfry_messages_expired_total"))
			require.Empty(t, b.deadLetters(), "expired messages are counted, but are no dead letters")
			if autoAck {
				require.EqualValues(t, 5, committed)
			}
			require.Zero(t, b.stranded())
		})
	}
}

// If all messages have expired, a pop returns no message and clears ready_at. The message of the
// next push is delivered.
func TestAPartitionOfExpiredMessagesIsNotReady(t *testing.T) {
	b := newBench(t, "g")
	b.option("expire_after_seconds = 60")
	b.push("p", "1", "2")
	b.ageMessages(2, time.Hour)
	require.Empty(t, b.pop(request("g", 9)).Messages)
	require.True(t, b.holds(`SELECT ready_at IS NULL AND committed = 2 FROM belfry.cursor`))
	b.push("p", "3")
	require.Equal(t, []string{"3"}, transactionIDs(b.pop(request("g", 9))))
}

// A leased message can be acknowledged after its expiry. After the end of the lease, it is not
// delivered again.
func TestALeasedMessageExpiresAtItsNextDelivery(t *testing.T) {
	b := newBench(t, "g")
	b.option("expire_after_seconds = 60")
	b.push("p", "1", "2")
	first := b.pop(request("g", 1))
	b.ageMessages(1, time.Hour)
	require.True(t, b.ack(first, queue.AckCompleted, first.Messages[0])[0].Success)
	second := b.pop(request("g", 1))
	require.Equal(t, []string{"2"}, transactionIDs(second))
	b.ageMessages(2, time.Hour)
	b.endLeases()
	require.Empty(t, b.pop(request("g", 1)).Messages)
	require.EqualValues(t, 1, enginetest.Metric(t, b.reg, "belfry_messages_expired_total"))
}

func TestExpiredMessagesMayBeDeadLettered(t *testing.T) {
	b := newBench(t, "g")
	b.option("expire_after_seconds = 60, dead_letter_expired = true")
	b.push("p", "1", "2", "3", "4")
	d := b.pop(request("g", 9))
	b.ack(d, queue.AckDead, d.Messages[1])
	b.ageMessages(3, time.Hour)
	b.endLeases()
	require.Equal(t, []string{"4"}, transactionIDs(b.pop(request("g", 9))))
	require.Equal(t, []string{"1: expired after 60 s (1)", "2: Retries exhausted (0)", "3: expired after 60 s (0)"}, b.deadLetters())
	require.EqualValues(t, 2, enginetest.Metric(t, b.reg, "belfry_messages_expired_total"), "a dead letter does not expire")
}

// With many expired messages, a claim makes at most 1,000 of them dead letters.
func TestExpiredMessagesAreDeadLetteredInPages(t *testing.T) {
	b := newBench(t, "g")
	b.option("expire_after_seconds = 60, dead_letter_expired = true")
	b.push("p", numbered("old", 2500)...)
	b.push("p", "new")
	b.ageMessages(2500, time.Hour)
	require.Equal(t, []string{"new"}, transactionIDs(b.pop(request("g", 9))))
	require.Len(t, b.deadLetters(), 2500)
	require.EqualValues(t, 2500, enginetest.Metric(t, b.reg, "belfry_messages_expired_total"))
}

// One message crashes its consumer. The consumer crashes at most 2*maxDeliveries-1 times: first
// with the whole batch, then with this message alone. The other messages are delivered.
func TestACrashLoopEndsInADeadLetter(t *testing.T) {
	t.Parallel()
	for limit := 1; limit <= 3; limit++ {
		for _, killer := range []int{0, 3} {
			t.Run(fmt.Sprintf("limit %d, killer %d", limit, killer), func(t *testing.T) {
				crashLoop(t, limit, fmt.Sprintf("m%d", killer))
			})
		}
	}
}

func crashLoop(t *testing.T, limit int, killer string) {
	b := newBench(t, "g")
	b.option(fmt.Sprintf("max_deliveries = %d, retry_limit = 0", limit))
	names := numbered("m", 5)
	b.push("p", names...)
	var done []string
	deliveries, crashes := map[string]int{}, 0
	for {
		d := b.pop(request("g", 4))
		if len(d.Messages) == 0 {
			break
		}
		dies := false
		for _, m := range d.Messages {
			deliveries[m.TransactionID]++
			dies = dies || m.TransactionID == killer
		}
		if dies {
			crashes++
			b.endLeases()
			continue
		}
		b.ack(d, queue.AckCompleted, d.Messages...)
		done = append(done, transactionIDs(d)...)
		require.LessOrEqual(t, crashes, 2*limit)
	}
	var want []string
	for _, name := range names {
		if name != killer {
			want = append(want, name)
		}
	}
	require.Equal(t, want, done, "all other messages are delivered in order")
	require.Equal(t, []string{fmt.Sprintf("%s: delivered %d times without success (maxDeliveries) (%d)", killer, limit, limit)}, b.deadLetters())
	require.GreaterOrEqual(t, deliveries[killer], limit)
	require.LessOrEqual(t, crashes, max(1, 2*limit-1))
	require.EqualValues(t, 1, enginetest.Metric(t, b.reg, "belfry_messages_given_up_total"))
	require.Zero(t, b.stranded())
}

// A claim that makes a message a dead letter continues with the next message.
func TestAClaimContinuesAfterAMessageItGivesUp(t *testing.T) {
	b := newBench(t, "g", "taker")
	b.option("max_deliveries = 2")
	b.push("p", "1", "2", "3")
	for range 2 {
		d := b.pop(request("g", 1))
		require.Equal(t, []string{"1"}, transactionIDs(d))
		b.endLeases()
	}
	d := b.pop(request("g", 9))
	require.Equal(t, []string{"2", "3"}, transactionIDs(d))
	require.Equal(t, 1, d.Messages[0].Attempt, "the next message has its own count")
	take := request("taker", 9, withAutoAck(true))
	require.Len(t, b.pop(take).Messages, 3, "an autoAck delivery separates no message, and another group has its own count")
}

// Failed and retried deliveries count. Released deliveries do not.
func TestFailedAndRetriedDeliveriesCount(t *testing.T) {
	b := newBench(t, "g")
	b.option("max_deliveries = 3, retry_limit = 9")
	b.push("p", "1", "2")
	for range 5 {
		d := b.pop(request("g", 9))
		require.NoError(t, b.Release(context.WithoutCancel(t.Context()), d.LeaseID))
	}
	d := b.pop(request("g", 9))
	b.ack(d, queue.AckRetry, d.Messages[0])
	d = b.pop(request("g", 9))
	require.Len(t, d.Messages, 2)
	b.ack(d, queue.AckFailed, d.Messages[0])
	d = b.pop(request("g", 9))
	require.Equal(t, []string{"1"}, transactionIDs(d), "in its last delivery, a message is alone")
	b.ack(d, queue.AckFailed, d.Messages[0])
	require.Equal(t, []string{"2"}, transactionIDs(b.pop(request("g", 9))))
	require.Equal(t, []string{"1: delivered 3 times without success (maxDeliveries) (3)"}, b.deadLetters())
}
