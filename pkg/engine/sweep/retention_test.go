package sweep

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

const (
	keepHalfAnHour      = "retention_enabled = true, retention_seconds = 1800"
	completedHalfAnHour = "retention_enabled = true, completed_retention_seconds = 1800"
	waitHalfAnHour      = "max_wait_time_seconds = 1800"
	expireHalfAnHour    = "expire_after_seconds = 1800"
)

func TestRetentionDeletesOldMessagesReadOrNot(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(2))
	r.push("p", 9)
	r.push("young", 3)
	r.options(keepHalfAnHour)
	r.age("p", 7)
	r.consume("fast", 4)
	require.False(t, r.pop("slow", 100).LeaseID.IsZero())
	r.exec("UPDATE belfry.cursor SET lease_until = now() - interval '1 s', ready_at = now() - interval '1 s' WHERE lease_id IS NOT NULL")

	r.sweep(r.retention())
	require.Equal(t, []int64{8, 9}, r.stored("p"))
	require.Equal(t, []int64{1, 2, 3}, r.stored("young"))
	require.Equal(t, int64(7), r.number("SELECT trimmed FROM belfry.partition WHERE name = 'p'"))
	require.Equal(t, int64(2), r.depth("p", "slow"), "depth stays exact")
	require.Equal(t, counts{retention: 7, unread: 7}, r.counts(), "the slow group had consumed none")
	require.Equal(t, int64(7), enginetest.Metric(t, r.reg, "belfry_sweep_deleted_total"), "the sum over all rules")
	require.Equal(t, int64(7), enginetest.Metric(t, r.reg, "belfry_sweep_deleted_unread_total"))
	require.Zero(t, enginetest.Metric(t, r.reg, "belfry_sweep_backlog_partitions"))
	require.Equal(t, int64(1), enginetest.Metric(t, r.reg, "belfry_sweep_runs_total"))

	require.ElementsMatch(t, []string{"8", "9", "1", "2", "3"}, names(r.pop("slow", 100)))
	late := r.pop("late", 100)
	require.ElementsMatch(t, []string{"8", "9", "1", "2", "3"}, names(late), "a new group begins at the first stored message")
	require.Equal(t, int64(2), r.depth("p", "late"))
	again := []queue.PushItem{{Queue: "q", Partition: "p", TransactionID: "1", Payload: []byte(`{}`)}}
	results, err := r.store.Push(enginetest.Context(t), again)
	require.NoError(t, err)
	require.False(t, results[0].Duplicate, "a trimmed transaction id may be pushed again")
}

func TestNothingIsDeletedWithoutItsOption(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("p", 3)
	r.age("p", 3)
	r.consume("g", 3)
	r.options("retention_seconds = 1, completed_retention_seconds = 1")
	r.sweep(r.retention())
	r.sweep(r.eviction())
	require.Len(t, r.stored("p"), 3, "retentionEnabled is the master switch")
	require.Zero(t, r.number("SELECT count(*) FROM belfry.sweep"), "no job was leased: one query, no write")
	r.options("retention_enabled = true, retention_seconds = 0, completed_retention_seconds = 0")
	r.sweep(r.retention())
	require.Len(t, r.stored("p"), 3, "0 means never")
	r.options("retention_seconds = 9223372036854775807, max_wait_time_seconds = 9223372036854775807, expire_after_seconds = 9223372036854775807")
	r.sweep(r.retention())
	r.sweep(r.eviction())
	require.Len(t, r.stored("p"), 3, "the largest value means never too")
}

func TestCompletedRetentionWaitsForEveryGroup(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(3))
	r.push("p", 10)
	r.options(completedHalfAnHour)
	r.age("p", 8)
	r.sweep(r.retention())
	require.Len(t, r.stored("p"), 10, "messages that no group reads are not completed")
	r.consume("fast", 10)
	r.consume("slow", 4)
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 6, 7, 8, 9, 10}, r.stored("p"))
	require.Equal(t, counts{completed: 4}, r.counts(), "nothing was unread")
	r.consume("slow", 6)
	r.sweep(r.retention())
	require.Equal(t, []int64{9, 10}, r.stored("p"), "younger messages stay")
	require.Equal(t, counts{completed: 8}, r.counts())
}

func TestEvictionDeletesWhatIsPendingForAnyGroup(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(3))
	r.push("p", 10)
	r.push("unread", 4)
	r.options(waitHalfAnHour)
	r.age("p", 7)
	r.age("unread", 2)
	r.consume("fast", 14)
	d := r.pop("slow", 100)
	r.ack(d, queue.AckCompleted, ofPartition(d, "p", 2)...)
	require.NoError(t, r.store.Release(enginetest.Context(t), d.LeaseID))

	r.sweep(r.eviction())
	require.Equal(t, []int64{1, 2, 8, 9, 10}, r.stored("p"), "messages that every group consumed do not wait")
	require.Equal(t, []int64{3, 4}, r.stored("unread"))
	require.Equal(t, counts{evicted: 7, unread: 7}, r.counts())
	require.Equal(t, int64(3), r.depth("p", "slow"))
	require.Equal(t, int64(5), r.number("SELECT holes FROM belfry.partition WHERE name = 'p'"))
	require.ElementsMatch(t, []string{"8", "9", "10", "3", "4"}, names(r.pop("slow", 100)))

	r.options(keepHalfAnHour)
	r.sweep(r.retention())
	require.Equal(t, []int64{8, 9, 10}, r.stored("p"))
	require.Zero(t, r.number("SELECT holes FROM belfry.partition WHERE name = 'p'"), "deleted messages before the first stored one are no holes")
}

func TestEvictionWithoutAnyGroup(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("p", 3)
	r.options(waitHalfAnHour)
	r.age("p", 2)
	r.sweep(r.eviction())
	require.Equal(t, []int64{3}, r.stored("p"))
	require.Equal(t, counts{evicted: 2, unread: 2}, r.counts())
	require.Equal(t, []string{"3"}, names(r.pop("g", 10)))
}

func TestExpiredMessagesArePassedAndCounted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(2))
	r.push("p", 6)
	r.options(expireHalfAnHour)
	r.consume("fast", 3)
	r.ack(r.pop("slow", 1), queue.AckDead, r.peek("slow")...)
	r.age("p", 5)
	r.sweep(r.eviction())
	require.Len(t, r.stored("p"), 6, "expired messages are passed, not deleted")
	require.Equal(t, int64(1), r.depth("p", "fast"))
	require.Equal(t, int64(1), r.depth("p", "slow"))
	require.Equal(t, counts{expired: 2 + 4}, r.counts(), "each expired message counts once per group, a dead letter does not count")
	require.Equal(t, []string{"6"}, names(r.pop("slow", 10)))
	before := r.counts()
	r.sweep(r.eviction())
	require.Equal(t, before, r.counts(), "a second sweep counts nothing")
}

// With deadLetterExpired, a sweep dead-letters expired messages, as a pop does.
func TestExpiredMessagesAreDeadLetteredIfConfigured(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(2))
	r.push("p", 6)
	r.options(expireHalfAnHour + ", dead_letter_expired = true")
	r.consume("fast", 3)
	r.ack(r.pop("slow", 1), queue.AckDead, r.peek("slow")...)
	r.age("p", 5)
	r.sweep(r.eviction())
	require.Equal(t, counts{expired: 2 + 4}, r.counts())
	const expired = "SELECT count(*) FROM belfry.dead_letter l JOIN belfry.consumer_group g ON g.id = l.group_id AND g.name = $1 WHERE l.error = 'expired after 1800 s'"
	require.Equal(t, int64(2), r.number(expired, "fast"))
	require.Equal(t, int64(4), r.number(expired, "slow"))
	require.Equal(t, []string{"6"}, names(r.pop("slow", 10)))
}

// ofPartition returns the first n messages of a partition in a delivery.
func ofPartition(d queue.Delivery, partition string, n int) (found []queue.Message) {
	for _, m := range d.Messages {
		if m.Partition.Name == partition && len(found) < n {
			found = append(found, m)
		}
	}
	return found
}

// peek returns the messages that the lease of a group covers.
func (r *fixture) peek(group string) []queue.Message {
	r.t.Helper()
	rows, err := r.pool.Query(enginetest.Context(r.t), `SELECT m.transaction_id, p.uid FROM belfry.cursor c
		JOIN belfry.consumer_group g ON g.id = c.group_id AND g.name = $1
		JOIN belfry.partition p ON p.id = c.partition_id
		JOIN belfry.message m ON m.partition_id = c.partition_id AND m.seq > c.committed AND m.seq <= c.lease_end`, group)
	require.NoError(r.t, err)
	defer rows.Close()
	var found []queue.Message
	for rows.Next() {
		m := queue.Message{Partition: &queue.Partition{}}
		require.NoError(r.t, rows.Scan(&m.TransactionID, (*[16]byte)(&m.Partition.ID)))
		found = append(found, m)
	}
	return found
}
