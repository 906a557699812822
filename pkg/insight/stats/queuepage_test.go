package stats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// pages returns the names of all pages of a list.
func (r *fixture) pages(f stats.QueuePageFilter) (names []string, requests int) {
	r.t.Helper()
	for {
		page, err := r.QueuePage(r.t.Context(), f)
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, len(page.Queues), f.Limit)
		for i := range page.Queues {
			names = append(names, page.Queues[i].Name)
		}
		requests++
		if page.Next == nil {
			return names, requests
		}
		f.After = page.Next
	}
}

func TestPagesOfQueuesAreComplete(t *testing.T) {
	r := newFixture(t)
	var all, shop []string
	for i := range 25 {
		name := fmt.Sprintf("q%02d", i)
		all = append(all, name)
		tagged := func(*catalog.Settings) {}
		if i%5 == 0 {
			shop = append(shop, name)
			tagged = func(set *catalog.Settings) { set.Namespace, set.Task = "shop", "mail" }
		}
		r.configure(name, tagged)
	}
	r.configure("", func(set *catalog.Settings) { set.Namespace = "empty" })
	all = append([]string{""}, all...)
	for _, limit := range []int{1, 2, 7, 26, 27, 100} {
		names, _ := r.pages(stats.QueuePageFilter{Limit: limit})
		require.Equal(t, all, names, limit)
		names, _ = r.pages(stats.QueuePageFilter{Limit: limit, Namespace: "shop", Task: "mail"})
		require.Equal(t, shop, names, limit)
		names, _ = r.pages(stats.QueuePageFilter{Limit: limit, Name: "Q1"})
		require.Equal(t, all[11:21], names, limit)
		names, _ = r.pages(stats.QueuePageFilter{Limit: limit, Allowed: []string{"q2*", "q03"}})
		require.Equal(t, append([]string{"q03"}, all[21:]...), names, limit)
		names, _ = r.pages(stats.QueuePageFilter{Limit: limit, Allowed: []string{}})
		require.Empty(t, names)
	}

	// A request examines at most ExaminedQueues queues. The next request continues after them.
	r.exec(`INSERT INTO belfry.queue (name) SELECT 'r' || lpad(i::text, 5, '0') FROM generate_series(1, 2 * $1::int) i`, stats.ExaminedQueues)
	page, err := r.QueuePage(t.Context(), stats.QueuePageFilter{Limit: 10, Name: "r04000"})
	require.NoError(t, err)
	require.Empty(t, page.Queues)
	require.NotNil(t, page.Next)
	names, requests := r.pages(stats.QueuePageFilter{Limit: 10, Name: "r04000"})
	require.Equal(t, []string{"r04000"}, names)
	require.Equal(t, 3, requests)
}

func TestTagPairsAreListedOnce(t *testing.T) {
	r := newFixture(t)
	r.exec(`INSERT INTO belfry.queue (name, namespace, task) SELECT 'q' || i, CASE WHEN i % 4 < 3 THEN 'n' || i % 4 ELSE '' END, CASE WHEN i % 2 = 0 THEN 't' ELSE '' END
		FROM generate_series(1, 40) i`)
	want := []api.TagPair{{Namespace: "n0", Task: "t"}, {Namespace: "n1"}, {Namespace: "n2", Task: "t"}}
	for limit := 1; limit < 5; limit++ {
		var found []api.TagPair
		for after := (api.TagPair{}); ; after = found[len(found)-1] {
			page, err := r.TagPairs(t.Context(), after, limit)
			require.NoError(t, err)
			if found = append(found, page...); len(page) < limit {
				break
			}
		}
		require.Equal(t, want, found, limit)
	}
}

// For a small queue, a page has the same figures as Reader.Queue.
func TestFiguresOfAPage(t *testing.T) {
	r := newFixture(t)
	listed := func() stats.PagedQueue {
		t.Helper()
		page, err := r.QueuePage(t.Context(), stats.QueuePageFilter{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Queues, 1)
		return page.Queues[0]
	}
	same := func(groups int64) {
		t.Helper()
		detail, err := r.Queue(t.Context(), "q", nil, 100)
		require.NoError(t, err)
		q := listed()
		counts := detail.Counts
		counts.Completed = 0 // a page does not count completed messages
		require.Equal(t, counts, q.Counts)
		require.Equal(t, detail.Partitions, q.Partitions)
		require.Equal(t, groups, q.Groups)
		require.True(t, q.Complete)
	}
	r.push("q", "a", "1", "2", "3")
	r.push("q", "b", "1")
	same(0)
	r.exec(`UPDATE belfry.message SET created_at = now() - interval '1 hour' WHERE transaction_id = '1'`)
	require.InDelta(t, time.Hour.Seconds(), listed().Oldest.Seconds(), 60)
	first := r.pop("q", "a", "g", 2)
	same(1)
	r.ack(first, queue.AckCompleted, 0)
	r.ack(first, queue.AckDead, 1)
	same(1)
	require.InDelta(t, time.Hour.Seconds(), listed().Oldest.Seconds(), 60, "partition b, without a group there")
	r.ack(r.pop("q", "b", "g", 9), queue.AckCompleted)
	same(1)
	require.Less(t, listed().Oldest, time.Minute)
	r.ack(r.pop("q", "a", "g", 9), queue.AckCompleted)
	same(1)
	require.Zero(t, listed().Oldest)
	r.pop("q", "a", "h", 9)
	r.exec(`UPDATE belfry.queue SET paused = true`)
	require.True(t, listed().Paused)
	require.EqualValues(t, 2, listed().Groups)
}

// The figures of a huge queue are lower bounds, and Complete is false. Their cost does not grow with the queue.
func TestThePageOfAHugeQueueIsBounded(t *testing.T) {
	r := newFixture(t)
	r.manyPartitions(20_000)
	r.exec(`UPDATE belfry.cursor SET ready_at = now() WHERE committed = 0`)
	r.exec(`UPDATE belfry.message SET created_at = now() - interval '1 day' WHERE transaction_id = 'p9999'`)
	r.exec(`UPDATE belfry.cursor c SET ready_at = now() - interval '1 day', committed = 0 FROM belfry.partition p WHERE p.id = c.partition_id AND p.name = 'p9999'`)
	r.exec(`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts) SELECT p.id, i, 1, 1 FROM belfry.partition p, generate_series(1, 2000) i WHERE p.name = 'p9998'`)
	page, err := r.QueuePage(t.Context(), stats.QueuePageFilter{Limit: 10})
	require.NoError(t, err)
	q := page.Queues[0]
	require.False(t, q.Complete)
	require.EqualValues(t, stats.CountedPartitions, q.Partitions)
	require.EqualValues(t, stats.MaxDeadLetters, q.Counts.DeadLetter)
	require.InDelta(t, stats.CountedPartitions, q.Counts.Total, 1)
	require.InDelta(t, stats.CountedPartitions/2, q.Counts.Pending, 5)
	require.InDelta(t, 24.0, q.Oldest.Hours(), 1, "Oldest also covers the partition that has been due the longest")
	require.Less(t, r.reads("insight/stats/queue_figures", []int64{1}, int64(100), int64(1000), int64(1000), 60.0), 6000)
	require.Less(t, r.reads("insight/stats/queue_page", nil, int64(50), "", "", "", nil, int64(2000)), 20)
	require.Less(t, r.reads("insight/stats/queue_tags", "", "", int64(200)), 20)
}
