package sweep

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/history"
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
	require.Equal(t, int64(2), r.depth("p", "slow"), "the depth is exact")
	require.Equal(t, counts{retention: 7, unread: 7}, r.counts(), "the slow group had consumed no message")
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
	require.False(t, results[0].Duplicate, "the transaction id of a deleted message can be pushed again")
}

func TestNothingIsDeletedWithoutItsOption(t *testing.T) {
	r := newFixture(t)
	r.push("p", 3)
	r.age("p", 3)
	r.consume("g", 3)
	r.options("retention_seconds = 1, completed_retention_seconds = 1")
	r.sweep(r.retention())
	r.sweep(r.eviction())
	require.Len(t, r.stored("p"), 3, "without retentionEnabled no message is deleted")
	require.Zero(t, r.number("SELECT count(*) FROM belfry.sweep"), "no job was leased")
	r.options("retention_enabled = true, retention_seconds = 0, completed_retention_seconds = 0")
	r.sweep(r.retention())
	require.Len(t, r.stored("p"), 3, "0 means never")
	r.options("retention_seconds = 9223372036854775807, max_wait_time_seconds = 9223372036854775807, expire_after_seconds = 9223372036854775807")
	r.sweep(r.retention())
	r.sweep(r.eviction())
	require.Len(t, r.stored("p"), 3, "the largest value means never too")
}

func TestCompletedRetentionWaitsForEveryGroup(t *testing.T) {
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
	require.Equal(t, counts{completed: 4}, r.counts(), "every deleted message had been consumed")
	r.consume("slow", 6)
	r.sweep(r.retention())
	require.Equal(t, []int64{9, 10}, r.stored("p"), "younger messages stay")
	require.Equal(t, counts{completed: 8}, r.counts())
}

func TestEvictionDeletesWhatIsPendingForAnyGroup(t *testing.T) {
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
	require.Zero(t, r.number("SELECT holes FROM belfry.partition WHERE name = 'p'"), "deleted messages before the first stored message are not holes")
}

func TestEvictionWithoutAnyGroup(t *testing.T) {
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
	r := newFixture(t, small(2))
	r.push("p", 6)
	r.options(expireHalfAnHour)
	r.consume("fast", 3)
	r.ack(r.pop("slow", 1), queue.AckDead, r.peek("slow")...)
	r.age("p", 5)
	r.sweep(r.eviction())
	require.Len(t, r.stored("p"), 6, "cursors move past expired messages, which are not deleted")
	require.Equal(t, int64(1), r.depth("p", "fast"))
	require.Equal(t, int64(1), r.depth("p", "slow"))
	require.Equal(t, counts{expired: 2 + 4}, r.counts(), "each expired message counts once per group, a dead letter does not count")
	require.Equal(t, []string{"6"}, names(r.pop("slow", 10)))
	before := r.counts()
	r.sweep(r.eviction())
	require.Equal(t, before, r.counts(), "a second sweep counts nothing")
}

// With deadLetterExpired, a sweep makes expired messages dead letters, like a pop.
func TestExpiredMessagesAreDeadLetteredIfConfigured(t *testing.T) {
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

// byDefault sets the section retention of the configuration to half an hour.
func byDefault(c *Config) {
	c.CompletedRetention, c.DeadLetterRetention = 30*time.Minute, 30*time.Minute
}

// The section retention of the configuration applies to queues without retentionEnabled. The sweep deletes old
// messages that every group has consumed, and old dead letters. It deletes no other messages.
func TestTheServerKeepsCompletedMessagesAndDeadLettersForALimitedTime(t *testing.T) {
	r := newFixture(t, small(3), byDefault)
	r.push("p", 10)
	r.age("p", 8)
	r.sweep(r.retention())
	require.Len(t, r.stored("p"), 10, "no group reads the queue")
	require.Zero(t, r.number("SELECT count(*) FROM belfry.sweep"), "no sweep is leased, because no message can be deleted")

	r.consume("fast", 10)
	r.consume("slow", 4)
	d := r.pop("slow", 1)
	r.ack(d, queue.AckDead, d.Messages...)
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 6, 7, 8, 9, 10}, r.stored("p"), "slow has not consumed 6 to 10, and 5 is a young dead letter")
	require.Equal(t, counts{completed: 4}, r.counts(), "every deleted message had been consumed")

	r.consume("slow", 5)
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 9, 10}, r.stored("p"))
	r.exec("UPDATE belfry.dead_letter SET failed_at = failed_at - interval '1 hour'")
	r.options("retention_enabled = true")
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 9, 10}, r.stored("p"), "a queue with retentionEnabled has its own options, and 0 keeps for ever")
	r.options("retention_enabled = false")
	r.sweep(r.retention())
	require.Equal(t, []int64{9, 10}, r.stored("p"), "the dead letter is old, so its message is deleted too")
	require.Zero(t, r.number("SELECT count(*) FROM belfry.dead_letter"))

	r.cfg.CompletedRetention, r.cfg.DeadLetterRetention = 0, 0
	r.age("p", 10)
	r.sweep(r.retention())
	require.Equal(t, []int64{9, 10}, r.stored("p"), "0 keeps for ever")
}

// The history counts the messages that sweeps remove, by queue.
func TestTheHistoryCountsWhatSweepsRemove(t *testing.T) {
	r := newFixture(t)
	r.push("p", 3)
	r.push("other", 2)
	r.consume("g", 5)
	r.age("p", 3)
	r.age("other", 2)
	r.options(completedHalfAnHour)
	r.sweep(r.retention())
	r.idle()
	r.sweep(r.partitions())
	got := r.counted.Totals()
	require.Len(t, got, 1)
	require.Equal(t, history.Counts{RemovedCompleted: 5, PartitionsDeleted: 2}, got["q"])
	r.push("p", 4)
	r.age("p", 4)
	r.options("retention_enabled = true, retention_seconds = 1800")
	r.sweep(r.retention())
	require.EqualValues(t, 4, r.counted.Totals()["q"].RemovedRetention)
}

// Old rows are combined into rows for 15 minutes, 1 hour and 6 hours with the same sums, separately for each
// instance and group. A period is combined only when all of it is old. Rows that are older than history.retention
// are deleted.
func TestOldHistoryIsRolledUpAndDeleted(t *testing.T) {
	r := newFixture(t, func(c *Config) { c.HistoryRetention = 90 * 24 * time.Hour })
	r.exec(`INSERT INTO belfry.history_instance SELECT date_trunc('hour', now() - h * interval '1 hour') + m * interval '1 minute', 1, i::uuid,
		'h', 1, 1, 10, 1, 1, 1, 1, 1, 1, 1, 1
		FROM unnest(ARRAY[28, 8, 0]) h, generate_series(0, 56, 7) m, unnest(ARRAY['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002']) i`)
	r.exec(`INSERT INTO belfry.history_instance SELECT date_bin('6 hours', now() - interval '10 days', 'epoch') + h * interval '1 hour', 60,
		'00000000-0000-4000-8000-000000000001', 'h', 1, 1, 10, 1, 1, 1, 1, 1, 1, 1, 1 FROM generate_series(0, 11) h`)
	r.exec(`INSERT INTO belfry.history SELECT i.at, i.minutes, i.instance, q, g, 1, 2, 3, 4, 5, 6, 7, 8, 21, 22, 9, 10, 11, 12, 13, 14, 15,
		16, extract(minute FROM i.at), 18, ARRAY[(3::bigint << 40) + 5, ((extract(minute FROM i.at)::bigint) << 40) + 1], 7
		FROM belfry.history_instance i, unnest(ARRAY['a', 'b']) q, unnest(ARRAY['', 'g']) g`)
	r.exec(`INSERT INTO belfry.history SELECT now() - interval '91 days' + i * interval '1 day', 60, gen_random_uuid(), 'q', '', 1, 2, 3, 4, 5, 6, 7, 8, 21, 22, 9,
		10, 11, 12, 13, 14, 15, 16, 17, 18, '{}', NULL FROM generate_series(-5001, 2) i`)
	// The backlog falls. The first minute of an hour has none.
	r.exec(`UPDATE belfry.history SET depth = 7 * (60 - extract(minute FROM at)), oldest_at = at - interval '1 day', counted_at = at + interval '1 minute'
		WHERE minutes = 1 AND extract(minute FROM at) > 0 AND queue = 'a'`)
	const sums = `SELECT sum(push_requests + push_messages + pop_requests + pop_messages + pop_empty + ack_requests + ack_success + ack_failed + ack_retried + ack_refused
		+ dead_letters + transactions + partitions_created + partitions_deleted + removed_retention + removed_completed + removed_evicted
		+ lag_sum + lag_count)::bigint FROM belfry.history WHERE queue <> 'q'`
	const histogram = `SELECT sum(e & ((1::bigint << 40) - 1))::bigint FROM belfry.history, unnest(latency) e WHERE queue <> 'q'`
	before, counted := r.number(sums), r.number(histogram)
	r.sweep(r.history())

	require.Equal(t, before, r.number(sums))
	require.Equal(t, counted, r.number(histogram))
	require.EqualValues(t, 1, r.number(`SELECT count(*) FROM belfry.history WHERE queue = 'q'`), "the newest row is kept")
	for minutes, age := range map[int]string{1: "6 hours 45 minutes", 15: "27 hours", 60: "8 days 6 hours"} {
		require.Zero(t, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = $1 AND at < now() - $2::text::interval`, minutes, age))
		require.NotZero(t, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = $1`, minutes), minutes)
	}
	require.EqualValues(t, 8, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = 360 AND push_requests = 6`))
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.history h WHERE NOT EXISTS
		(SELECT 1 FROM belfry.history_instance i WHERE (i.at, i.minutes, i.instance) = (h.at, h.minutes, h.instance)) AND h.queue <> 'q'`))
	rows, err := r.pool.Query(t.Context(), `SELECT push_requests, lag_max, cardinality(latency), parked, count(*)
		FROM belfry.history WHERE minutes = 60 AND queue <> 'q' AND at = date_trunc('hour', now() - interval '28 hours') GROUP BY 1, 2, 3, 4`)
	require.NoError(t, err)
	type hour struct{ Requests, Max, Buckets, Parked, Rows int64 }
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[hour])
	require.NoError(t, err)
	require.EqualValues(t, 4, r.number(`SELECT count(*) FROM belfry.history WHERE minutes = 60 AND queue = 'a' AND at = date_trunc('hour', now() - interval '28 hours')
		AND depth = 7 * 4 AND counted_at = at + interval '57 minutes' AND oldest_at = at + interval '56 minutes' - interval '1 day'`), "a merged row has the last backlog")
	require.Equal(t, []hour{{Requests: 9, Max: 56, Buckets: 10, Parked: 7, Rows: 8}}, found)
}

// Audit rows that are older than audit.retention are deleted in batches. With 0 the job does not run.
func TestOldRowsOfTheAuditAreDeleted(t *testing.T) {
	r := newFixture(t, func(c *Config) { c.AuditRetention = 90 * 24 * time.Hour })
	r.exec(`INSERT INTO belfry.audit (id, at, address, request_id, action, parameters, counts, result)
		SELECT gen_random_uuid(), now() - interval '90 days' + i * interval '1 hour', '', '', 'queue.delete', '{}', '{}', 'ok'
		  FROM generate_series(-2499, 3) i`)
	r.sweep(r.audit())
	require.EqualValues(t, 3, r.number("SELECT count(*) FROM belfry.audit WHERE at > now() - interval '90 days'"))
	require.EqualValues(t, 3, r.number("SELECT count(*) FROM belfry.audit"))

	jobs := func(retention time.Duration) (names []string) {
		r.cfg.AuditRetention = retention
		for _, j := range r.jobs() {
			names = append(names, j.name)
		}
		return names
	}
	require.Contains(t, jobs(time.Hour), jobAudit)
	require.NotContains(t, jobs(0), jobAudit)
}

func TestBatchSizeAdaptsToTheDuration(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2, nextBatchSize(1, time.Millisecond))
	require.Equal(t, maxSteps, nextBatchSize(maxSteps, time.Millisecond))
	require.Equal(t, 8, nextBatchSize(8, 15*time.Millisecond))
	require.Equal(t, 4, nextBatchSize(8, time.Second))
	require.Equal(t, 1, nextBatchSize(1, time.Second))
}
