package stats_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMessagesAreFiltered(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("orders.new", "eu", "1", "2")
	r.push("orders.new", "50% ☂", "3")
	r.push("orders.paid", "eu", "4")
	r.push("mails", "eu", "5")
	r.push("gone", "eu", "6")
	_, err := r.catalog.Delete(t.Context(), "gone")
	require.NoError(t, err)
	name := func(s string) *string { return &s }
	for _, c := range []struct {
		filter stats.MessageFilter
		want   string
	}{
		{stats.MessageFilter{}, "5 4 3 2 1"},
		{stats.MessageFilter{Queue: name("orders.new")}, "3 2 1"},
		{stats.MessageFilter{Queue: name("orders.new"), Partition: name("50% ☂")}, "3"},
		{stats.MessageFilter{Partition: name("eu")}, "5 4 2 1"},
		{stats.MessageFilter{Namespace: "orders"}, "4 3 2 1"},
		{stats.MessageFilter{Namespace: "orders", Task: "paid"}, "4"},
		{stats.MessageFilter{Queue: name("orders.new"), Task: "paid"}, ""},
		{stats.MessageFilter{Queue: name("orders.new"), Namespace: "mails"}, ""},
		{stats.MessageFilter{Queue: name("gone")}, ""},
		{stats.MessageFilter{Queue: name("mails"), Partition: name("us")}, ""},
		{stats.MessageFilter{Limit: 2}, "5 4"},
		{stats.MessageFilter{Limit: 2, Offset: 3}, "2 1"},
		{stats.MessageFilter{Limit: 2, Offset: 9}, ""},
		{stats.MessageFilter{Status: stats.StatusCompleted}, ""},
		{stats.MessageFilter{From: time.Now().Add(time.Hour)}, ""},
		{stats.MessageFilter{To: time.Now().Add(-time.Hour)}, ""},
		{stats.MessageFilter{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}, "5 4 3 2 1"},
	} {
		require.Equal(t, c.want, strings.Join(r.list(c.filter), " "), "%+v", c.filter)
		if c.filter.Limit == 0 {
			for size := 1; size < 5; size++ {
				require.ElementsMatch(t, strings.Fields(c.want), r.inWindows(c.filter, size), "%+v", c.filter)
			}
		}
	}
	r.exec(`UPDATE belfry.partition p SET name = '' FROM belfry.queue q WHERE q.id = p.queue_id AND q.name = 'mails'`)
	require.Equal(t, []string{"5"}, r.inWindows(stats.MessageFilter{Queue: name("mails")}, 1), "a name may be empty")
	list, err := r.Messages(t.Context(), stats.MessageFilter{Queue: name("orders.new"), Limit: 1})
	require.NoError(t, err)
	m := list.Messages[0]
	require.Equal(t, []string{"orders.new", "orders", "new", "50% ☂"}, []string{m.Queue, m.Namespace, m.Task, m.Partition})
	require.NotNil(t, list.Next)
}

// inWindows lists messages one by one, in windows of so many partitions.
func (r *fixture) inWindows(f stats.MessageFilter, size int) (ids []string) {
	r.t.Helper()
	token := ""
	for f.Limit = 1; ; {
		var err error
		f.Window, err = stats.ParseWindow(token, size)
		require.NoError(r.t, err)
		list, err := r.Messages(r.t.Context(), f)
		require.NoError(r.t, err)
		ids = append(ids, transactions(list.Messages)...)
		if f.After = list.Next; f.After != nil {
			continue
		}
		if list.NextWindow == nil {
			return ids
		}
		token = list.NextWindow.Token()
	}
}

// A token for partitions that no answer gave is refused, or begins somewhere. It is never an error of the database.
func TestTokensOfWindows(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("q", "p", "1")
	for _, token := range []string{"x", "AAAA", "gAAAAAAAAAA", "AAAAAAAAAAAA", "AAAAAAAAAAD_"} {
		_, err := stats.ParseWindow(token, 1)
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), token)
	}
	w, err := stats.ParseWindow("f_________9w", 1)
	require.NoError(t, err)
	list, err := r.Messages(t.Context(), stats.MessageFilter{Limit: 1, Window: w})
	require.NoError(t, err)
	require.Empty(t, list.Messages)
	require.Nil(t, list.NextWindow)
}

// requireStatuses compares the transaction ids of a queue by status: pending|processing|
// completed|dead_letter.
func (r *fixture) requireStatuses(queueName, want string) {
	r.t.Helper()
	all := []stats.Status{stats.StatusPending, stats.StatusProcessing, stats.StatusCompleted, stats.StatusDeadLetter}
	list, err := r.Messages(r.t.Context(), stats.MessageFilter{Queue: &queueName, Limit: 100})
	require.NoError(r.t, err)
	got := map[stats.Status][]string{}
	for _, m := range list.Messages {
		got[m.Status] = append(got[m.Status], m.TransactionID)
		require.Equal(r.t, m.QueueStatus == stats.StatusProcessing, !m.LeasedUntil.IsZero())
	}
	var words []string
	for _, status := range all {
		require.Equal(r.t, append([]string{}, got[status]...),
			r.list(stats.MessageFilter{Queue: &queueName, Status: status}), "the filter %s", status)
		slices.Reverse(got[status])
		words = append(words, strings.Join(got[status], ""))
	}
	require.Equal(r.t, want, strings.Join(words, "|"))
}

func (r *fixture) mode(queueName string) string {
	r.t.Helper()
	list, err := r.Messages(r.t.Context(), stats.MessageFilter{Queue: &queueName, Limit: 1})
	require.NoError(r.t, err)
	return fmt.Sprintf("%s %t %d", list.Mode.Type(), list.Mode.QueueMode, list.Mode.Groups)
}

// The statuses of one partition for every mix of readers.
func TestStatusesFollowTheReaders(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, queueName := range []string{"queue", "bus", "hybrid"} {
		r.push(queueName, "p", "1", "2", "3", "4", "5")
		require.Equal(t, "none false 0", r.mode(queueName))
	}
	r.requireStatuses("queue", "12345|||")
	d := r.pop("queue", "p", queue.DefaultGroup, 4)
	r.requireStatuses("queue", "5|1234||")
	r.ack(d, queue.AckCompleted, 0)
	r.ack(d, queue.AckDead, 2)
	r.requireStatuses("queue", "5|24|1|3")
	require.Equal(t, "queue true 0", r.mode("queue"))

	a := r.pop("bus", "p", "a", 4)
	r.requireStatuses("bus", "12345|||")
	r.ack(a, queue.AckCompleted, 0, 1)
	r.requireStatuses("bus", "345||12|")
	b := r.pop("bus", "p", "b", 3)
	r.requireStatuses("bus", "12345|||")
	r.ack(b, queue.AckCompleted, 0)
	r.ack(b, queue.AckDead, 1)
	r.requireStatuses("bus", "345||1|2")
	require.Equal(t, "bus false 2", r.mode("bus"))

	r.ack(r.pop("hybrid", "p", "a", 4), queue.AckCompleted)
	d = r.pop("hybrid", "p", queue.DefaultGroup, 2)
	r.requireStatuses("hybrid", "345|12||")
	r.ack(d, queue.AckCompleted)
	r.requireStatuses("hybrid", "345||12|")
	require.Equal(t, "hybrid true 1", r.mode("hybrid"))
	hybrid := "hybrid"
	list, err := r.Messages(t.Context(), stats.MessageFilter{Queue: &hybrid, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1}, []int64{list.Messages[0].DoneBy, list.Messages[1].DoneBy}, "the group is done with 4 and not with 5")
	require.EqualValues(t, 1, list.Messages[0].Groups)

	r.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp() - interval '1 s'`)
	r.requireStatuses("queue", "245||1|3")
}

func TestDeletedMessagesAreNotListed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.configure("q", func(s *catalog.Settings) { s.Options.DelayedProcessing = 60 })
	r.push("q", "p", "1", "2", "3", "4", "5")
	r.exec(`DELETE FROM belfry.message WHERE seq IN (1, 4, 5)`)
	r.exec(`UPDATE belfry.partition SET trimmed = 1, holes = 2 WHERE name = 'p'`)
	require.Equal(t, []string{"3", "2"}, r.list(stats.MessageFilter{}))
	require.Equal(t, []string{"3", "2"}, r.list(stats.MessageFilter{Status: stats.StatusPending}), "delayed messages are pending")
	r.exec(`DELETE FROM belfry.message`)
	require.Empty(t, r.list(stats.MessageFilter{}))
}
