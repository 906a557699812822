package stats_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMessagesAreFiltered(t *testing.T) {
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
	require.Equal(t, []string{"5"}, r.inWindows(stats.MessageFilter{Queue: name("mails")}, 1), "the name of a partition may be empty")
	list, err := r.Messages(t.Context(), stats.MessageFilter{Queue: name("orders.new"), Limit: 1})
	require.NoError(t, err)
	m := list.Messages[0]
	require.Equal(t, []string{"orders.new", "orders", "new", "50% ☂"}, []string{m.Queue, m.Namespace, m.Task, m.Partition})
	require.NotNil(t, list.Next)
}

// inWindows lists messages one by one, in windows of size partitions.
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

// ParseWindow refuses an invalid token. A valid token that no answer contained starts at some partition, and does not cause
// an error of the database.
func TestTokensOfWindows(t *testing.T) {
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

// The test checks the statuses of the messages of one partition with a reader without a group, with groups, and with both.
func TestStatusesFollowTheReaders(t *testing.T) {
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
	require.Equal(t, []int64{0, 1}, []int64{list.Messages[0].DoneBy, list.Messages[1].DoneBy}, "the group is done with message 4 and not with message 5")
	require.EqualValues(t, 1, list.Messages[0].Groups)

	r.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp() - interval '1 s'`)
	r.requireStatuses("queue", "245||1|3")
}

func TestDeletedMessagesAreNotListed(t *testing.T) {
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

// storedMessage is a message as the tables hold it.
type storedMessage struct {
	transaction string
	at          time.Time
	dead        bool
}

// scatter creates partitions of very different sizes. Their messages are spread over an
// hour, many at the same instant. It returns all messages, newest first.
func (r *fixture) scatter(partitions, messages int) []storedMessage {
	r.t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	r.configure("q")
	base := time.Date(2026, 5, 16, 8, 0, 0, 0, time.UTC)
	times := slices.Repeat([][]time.Time{{base}}, partitions)
	for range messages - partitions {
		i := min(rng.IntN(partitions), rng.IntN(partitions))
		times[i] = append(times[i], base.Add(time.Duration(rng.IntN(600))*6*time.Second))
	}
	for i, at := range times {
		slices.SortFunc(at, time.Time.Compare)
		r.exec(`WITH p AS (
			    INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
			    SELECT id, $1, cardinality($2::timestamptz[]), ($2::timestamptz[])[cardinality($2::timestamptz[])] FROM belfry.queue
			    RETURNING id)
			INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
			SELECT p.id, m.seq, m.at, gen_random_uuid(), $1 || '/' || m.seq, '{}'
			  FROM p, unnest($2::timestamptz[]) WITH ORDINALITY AS m(at, seq)`, fmt.Sprintf("p%d", i), at)
	}
	r.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT id, '__QUEUE_MODE__', true FROM belfry.queue`)
	r.exec(`INSERT INTO belfry.cursor (partition_id, group_id) SELECT p.id, g.id FROM belfry.partition p, belfry.consumer_group g`)
	r.exec(`INSERT INTO belfry.dead_letter (partition_id, group_id, seq, attempts)
		SELECT m.partition_id, g.id, m.seq, 1 FROM belfry.message m, belfry.consumer_group g WHERE hashtext(m.id::text) % 10 = 0`)
	rows, err := r.conn.Query(r.t.Context(), `SELECT m.transaction_id, m.created_at, d.id IS NOT NULL
		FROM belfry.message m LEFT JOIN belfry.dead_letter d USING (partition_id, seq)
		ORDER BY m.created_at DESC, m.partition_id DESC, m.seq DESC`)
	require.NoError(r.t, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (storedMessage, error) {
		var m storedMessage
		err := row.Scan(&m.transaction, &m.at, &m.dead)
		return m, err
	})
	require.NoError(r.t, err)
	require.Len(r.t, all, messages)
	return all
}

// For each filter and page size, the pages together equal the sorted list of all
// matching messages.
func TestPagesAreTheSortedList(t *testing.T) {
	r := newFixture(t)
	all := r.scatter(200, 1500)
	middle := all[len(all)/2].at
	later := all[len(all)/4].at
	for name, c := range map[string]struct {
		filter stats.MessageFilter
		keep   func(storedMessage) bool
	}{
		"all":         {stats.MessageFilter{}, func(storedMessage) bool { return true }},
		"from":        {stats.MessageFilter{From: middle}, func(m storedMessage) bool { return !m.at.Before(middle) }},
		"to":          {stats.MessageFilter{To: middle}, func(m storedMessage) bool { return !m.at.After(middle) }},
		"from and to": {stats.MessageFilter{From: middle, To: later}, func(m storedMessage) bool { return !m.at.Before(middle) && !m.at.After(later) }},
		"dead":        {stats.MessageFilter{Status: stats.StatusDeadLetter}, func(m storedMessage) bool { return m.dead }},
		"pending":     {stats.MessageFilter{Status: stats.StatusPending, To: later}, func(m storedMessage) bool { return !m.dead && !m.at.After(later) }},
		"completed":   {stats.MessageFilter{Status: stats.StatusCompleted}, func(storedMessage) bool { return false }},
	} {
		want := []string{}
		for _, m := range all {
			if c.keep(m) {
				want = append(want, m.transaction)
			}
		}
		for _, limit := range []int{83, 1000} {
			got := []string{}
			filter := c.filter
			for filter.Limit = limit; ; {
				page, err := r.Messages(t.Context(), filter)
				require.NoError(t, err)
				got = append(got, transactions(page.Messages)...)
				require.LessOrEqual(t, len(got), len(want), "%s in pages of %d", name, limit)
				if page.Next == nil {
					break
				}
				require.Len(t, page.Messages, limit, "only the last page is short")
				position, err := stats.ParsePosition(page.Next.Token())
				require.NoError(t, err)
				require.Equal(t, page.Next.Token(), position.Token())
				filter.After = &position
			}
			require.Equal(t, want, got, "%s in pages of %d", name, limit)
			filter = c.filter
			filter.Limit, filter.Offset = limit, 100
			skipped := want[min(100, len(want)):]
			require.Equal(t, append([]string{}, skipped[:min(limit, len(skipped))]...), r.list(filter), "%s with an offset", name)
		}
	}
}

func TestInvalidCursorTokensAreRefused(t *testing.T) {
	t.Parallel()
	good := stats.Position{}
	for _, token := range []string{"", "x", good.Token(), "AAAA", good.Token() + "AA", "////////////////////////////////"} {
		_, err := stats.ParsePosition(token)
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), "%q", token)
		require.ErrorContains(t, err, "cursor")
	}
}
