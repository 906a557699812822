package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// No rule deletes a message that a live lease covers. Messages before and after it are deleted.
func TestLeasedMessagesAreNotDeleted(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]struct {
		columns string
		job     func(*Sweeper) job
	}{
		"retention": {keepHalfAnHour, (*Sweeper).retention},
		"eviction":  {waitHalfAnHour, (*Sweeper).eviction},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, small(2))
			r.push("p", 10)
			r.options(rule.columns)
			r.consume("leased", 2)
			require.Len(t, r.pop("other", 1).Messages, 1)
			r.exec("UPDATE belfry.cursor SET lease_until = now() - interval '1 s', ready_at = now() - interval '1 s' WHERE lease_id IS NOT NULL")
			d := r.pop("leased", 3)
			require.Equal(t, []string{"3", "4", "5"}, names(d))
			r.age("p", 8)

			r.sweep(rule.job(r.Sweeper))
			require.Equal(t, []int64{3, 4, 5, 9, 10}, r.stored("p"))
			require.Equal(t, int64(2), r.depth("p", "other"), "the cursor of the group without a lease is after the leased messages")
			require.Equal(t, int64(3), r.counts().skipped, "the skipped messages are counted")
			require.Equal(t, [3]int64{2, 3, 0}, r.states("p"), "9 and 10 are pending, three are leased")
			require.Equal(t, []string{"9", "10"}, names(r.pop("other", 10)))
			require.Equal(t, [3]int64{2, 3, 0}, r.states("p"), "9 and 10 are pending for the other group")
			r.sweep(rule.job(r.Sweeper))
			require.Equal(t, []int64{3, 4, 5, 9, 10}, r.stored("p"), "a second sweep deletes nothing")
			require.Equal(t, int64(3), r.counts().skipped, "a skipped message is counted once")

			r.ack(d, queue.AckCompleted, d.Messages...)
			require.Equal(t, []string{"9", "10"}, names(r.pop("leased", 10)))
			r.options("retention_enabled = true, retention_seconds = 1800")
			r.sweep(r.retention())
			require.Equal(t, []int64{9, 10}, r.stored("p"), "the messages are deleted after the lease")
			require.Equal(t, [3]int64{0, 2, 0}, r.states("p"))
		})
	}
}

func TestAnExpiredLeaseProtectsNothing(t *testing.T) {
	r := newFixture(t)
	r.push("p", 4)
	r.options(keepHalfAnHour)
	d := r.pop("g", 3)
	r.age("p", 2)
	r.exec("UPDATE belfry.cursor SET lease_until = now() - interval '1 s', ready_at = now() - interval '1 s'")
	r.sweep(r.retention())
	require.Equal(t, []int64{3, 4}, r.stored("p"))
	_, err := r.store.Extend(enginetest.Context(t), d.LeaseID, time.Minute)
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err), "the lease cannot be extended")
	require.Equal(t, []string{"3", "4"}, names(r.pop("g", 10)))
	require.NotEmpty(t, r.published.ready, "a ready event is published for the moved cursor")
}

// A sweep reads leases after it has locked the cursors. If a lease is extended while the sweep
// waits for the lock, the lease protects its messages.
func TestALeaseExtendedDuringASweepProtects(t *testing.T) {
	r := newFixture(t)
	r.push("p", 3)
	r.options(keepHalfAnHour)
	r.pop("g", 3)
	r.age("p", 3)
	r.exec("UPDATE belfry.cursor SET lease_until = now() + interval '1 s', ready_at = now() + interval '1 s'")
	tx, err := r.pool.Begin(enginetest.Context(t))
	require.NoError(t, err)
	enginetest.Exec(t, tx, "UPDATE belfry.cursor SET lease_until = now() + interval '1 h', ready_at = now() + interval '1 h'")
	done := make(chan error, 1)
	go func() {
		done <- r.runOnce(t.Context(), r.retention())
	}()
	enginetest.Await(t, "the sweep waits for the cursor", func() bool {
		return r.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	require.NoError(t, tx.Commit(enginetest.Context(t)))
	require.NoError(t, <-done)
	require.Len(t, r.stored("p"), 3)
	r.checkInvariants()
}

func TestDeadLettersKeepTheirMessages(t *testing.T) {
	r := newFixture(t, small(2))
	r.push("p", 8)
	d := r.pop("g", 8)
	r.ack(d, queue.AckDead, d.Messages[1], d.Messages[4])
	r.ack(d, queue.AckCompleted, d.Messages[0], d.Messages[2], d.Messages[3], d.Messages[5], d.Messages[6], d.Messages[7])
	r.options(completedHalfAnHour)
	r.age("p", 7)
	r.sweep(r.retention())
	require.Equal(t, []int64{2, 5, 8}, r.stored("p"), "the messages between the dead letters are deleted")
	require.Equal(t, counts{completed: 5}, r.counts())

	r.exec("DELETE FROM belfry.dead_letter WHERE seq = 2")
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 8}, r.stored("p"), "the message is deleted after its dead letter")

	r.options(keepHalfAnHour)
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 8}, r.stored("p"), "the dead letter is younger than retentionSeconds")
	r.exec("UPDATE belfry.dead_letter SET failed_at = failed_at - interval '1 h'")
	holder, err := r.pool.Begin(enginetest.Context(t))
	require.NoError(t, err)
	enginetest.Exec(t, holder, "SELECT FROM belfry.dead_letter FOR UPDATE")
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 8}, r.stored("p"), "another transaction holds the dead letter")
	require.NoError(t, holder.Rollback(enginetest.Context(t)))
	r.sweep(r.retention())
	require.Equal(t, []int64{8}, r.stored("p"))
	require.Zero(t, r.number("SELECT count(*) FROM belfry.dead_letter"), "message and dead letter are deleted together")
	require.Equal(t, int64(7), r.number("SELECT trimmed FROM belfry.partition"))
}

// A sweep checks all kept messages again, in pages.
func TestASweepChecksKeptMessagesAgain(t *testing.T) {
	r := newFixture(t, small(10))
	r.push("p", 50)
	d := r.pop("g", 50)
	r.ack(d, queue.AckDead, d.Messages[:45]...)
	r.ack(d, queue.AckCompleted, d.Messages[45:]...)
	r.options(completedHalfAnHour)
	r.age("p", 50)
	r.sweep(r.retention())
	require.Len(t, r.stored("p"), 45)
	r.exec("DELETE FROM belfry.dead_letter WHERE seq > 30")
	r.sweep(r.retention())
	require.Len(t, r.stored("p"), 30)
}

// A seek, or the release of an undelivered pop, may move a cursor below the first stored message. The
// next sweep moves it forward.
func TestACursorBelowTheFirstMessageIsMoved(t *testing.T) {
	r := newFixture(t)
	r.push("p", 5)
	r.consume("g", 5)
	r.options(completedHalfAnHour)
	r.age("p", 3)
	r.sweep(r.retention())
	r.exec("UPDATE belfry.cursor SET committed = 0, ready_at = now()")
	r.sweep(r.retention())
	require.Equal(t, int64(2), r.depth("p", "g"))
	require.Equal(t, []string{"4", "5"}, names(r.pop("g", 10)))
}

// A SQL consumer holds its cursor until its transaction ends. A sweep skips the partition, releases
// its own lock on it and continues with other partitions.
func TestASweepDoesNotWaitForALockedCursor(t *testing.T) {
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
	enginetest.Exec(t, consumer, `SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		WHERE p.name = 'a' FOR NO KEY UPDATE OF c`)

	r.sweep(r.retention())
	require.Equal(t, []int64{1, 2}, r.stored("a"))
	require.Equal(t, []int64{2}, r.stored("b"))
	require.EqualValues(t, 1, enginetest.Metric(t, r.reg, "belfry_sweep_failures_total"))
	r.push("a", 1) // the partition is not locked

	require.NoError(t, consumer.Rollback(enginetest.Context(t)))
	r.sweep(r.retention())
	require.Equal(t, []int64{2, 3}, r.stored("a"))
}
