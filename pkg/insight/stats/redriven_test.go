package stats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A redriven message that is not settled counts as pending, in the lag of its group, and
// in the time lag.
func TestRedrivenMessagesCountAsLag(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	groups := stats.NewGroups(r.pool)
	// requireLag checks every figure. age is the age of the oldest message in hours.
	requireLag := func(counts stats.Counts, lag int64, age float64, why string) {
		t.Helper()
		require.Equal(t, counts, r.only().Counts, why)
		near := func(got time.Duration) { t.Helper(); require.InDelta(t, age, got.Hours(), 0.1, why) }
		list, err := groups.List(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, [2]int64{lag, min(lag, 1)}, [2]int64{list[0].Lag, list[0].Lagging}, why)
		near(list[0].Oldest)
		detail, err := groups.Group(t.Context(), "g", 10, nil)
		require.NoError(t, err)
		require.Equal(t, lag, detail[0].Partitions[0].Lag, why)
		near(detail[0].Partitions[0].Age)
		late, err := groups.Lagging(t.Context(), 30*time.Minute, 10, nil)
		require.NoError(t, err)
		o, err := r.Overview(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, lag, o.OffsetLag.Max, why)
		require.InDelta(t, age*3600, o.TimeLag.Max, 360, why)
		if age == 0 {
			require.Empty(t, late, why)
			return
		}
		require.Len(t, late, 1, why)
		require.Equal(t, lag, late[0].Lag, why)
		near(late[0].Age)
		near(time.Since(late[0].Oldest))
	}
	r.push("q", "p", "1", "2", "3", "4")
	d := r.pop("q", "p", "g", 4)
	r.ack(d, queue.AckDead, 0, 2)
	r.ack(d, queue.AckCompleted, 1, 3)
	r.exec(`UPDATE belfry.message SET created_at = created_at - (5 - seq) * interval '1 hour'`)
	requireLag(stats.Counts{Total: 4, Completed: 2, DeadLetter: 2}, 0, 0, "no message is left")
	r.exec(`SELECT belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter))`)
	requireLag(stats.Counts{Total: 4, Pending: 2, Completed: 2}, 2, 4, "two messages were redriven")
	r.push("q", "p", "5")
	requireLag(stats.Counts{Total: 5, Pending: 3, Completed: 2}, 3, 4, "and one message is new")
	d = r.pop("q", "p", "g", 4)
	require.Len(t, d.Messages, 2)
	requireLag(stats.Counts{Total: 5, Pending: 3, Completed: 2}, 3, 4, "a message in delivery is not done")
	r.ack(d, queue.AckCompleted, 0)
	requireLag(stats.Counts{Total: 5, Pending: 2, Completed: 3}, 2, 2, "the first is settled")
	r.ack(d, queue.AckCompleted, 1)
	requireLag(stats.Counts{Total: 5, Pending: 1, Completed: 4}, 1, 0, "the second is settled")
}

// A redriven message of the reader without a group is first pending, then processing (in
// delivery), then completed. For a named group, it is pending until it is completed.
func TestTheStatusOfRedrivenMessages(t *testing.T) {
	t.Parallel()
	for group, redelivered := range map[string]stats.Status{queue.DefaultGroup: stats.StatusProcessing, "g": stats.StatusPending} {
		r := newFixture(t)
		r.push("q", "p", "1", "2", "3", "4")
		d := r.pop("q", "p", group, 4)
		r.ack(d, queue.AckDead, 0, 2)
		r.ack(d, queue.AckCompleted, 1, 3)
		requireStatus := func(want map[stats.Status][]string) {
			t.Helper()
			for _, status := range []stats.Status{stats.StatusPending, stats.StatusProcessing, stats.StatusCompleted, stats.StatusDeadLetter} {
				require.ElementsMatch(t, want[status], r.list(stats.MessageFilter{Status: status}), "%s for %s", status, group)
			}
		}
		requireStatus(map[stats.Status][]string{stats.StatusDeadLetter: {"1", "3"}, stats.StatusCompleted: {"2", "4"}})
		r.exec(`SELECT belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter))`)
		requireStatus(map[stats.Status][]string{stats.StatusPending: {"1", "3"}, stats.StatusCompleted: {"2", "4"}})
		d = r.pop("q", "p", group, 1)
		want := map[stats.Status][]string{stats.StatusCompleted: {"2", "4"}, stats.StatusPending: {"3"}}
		want[redelivered] = append(want[redelivered], "1")
		requireStatus(want)
		r.ack(d, queue.AckCompleted)
		requireStatus(map[stats.Status][]string{stats.StatusPending: {"3"}, stats.StatusCompleted: {"1", "2", "4"}})

		// A message redriven during a live lease is not part of that lease.
		r.ack(r.pop("q", "p", group, 1), queue.AckCompleted)
		r.push("q", "p", "5", "6")
		d = r.pop("q", "p", group, 2)
		r.ack(d, queue.AckDead, 1)
		r.exec(`SELECT belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter))`)
		want = map[stats.Status][]string{stats.StatusCompleted: {"1", "2", "3", "4"}, stats.StatusPending: {"6"}}
		want[redelivered] = append(want[redelivered], "5")
		requireStatus(want)
	}
}
