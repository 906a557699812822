package integration_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// lots are a partition with 50,000 dead letters of the group g, and nothing else.
const lots = `WITH made AS (
		INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at) SELECT q.id, 'dead', 50000, now() FROM belfry.queue q WHERE q.name = 'q' RETURNING id, queue_id
	), stored AS (
		INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload) SELECT m.id, i, now(), gen_random_uuid(), i::text, '1' FROM made m, generate_series(1, 50000) i
	), cursors AS (
		INSERT INTO belfry.cursor (partition_id, group_id, committed) SELECT m.id, g.id, 50000 FROM made m JOIN belfry.consumer_group g ON g.queue_id = m.queue_id
	)
	INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
	SELECT m.id, i, g.id, 1, 'x' FROM made m JOIN belfry.consumer_group g ON g.queue_id = m.queue_id, generate_series(1, 50000) i`

// In one state, the lag, the dead letters and the messages in delivery are the same numbers on each page, in each route, in each
// command and for Prometheus.
func TestOneThingHasOneNumber(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	x := &terminal{t: t, server: s.base, ran: map[string]bool{}}
	options(c, "q", "retryDelay", 600_000)
	for i := range 130 { // more than a page of partitions
		c.pushIDs("q", fmt.Sprint("p", i), "1", "2", "3")
	}
	for range 10 { // of any partition, so that the group has a place in each
		c.pop("q", "consumerGroup=g").ok(http.StatusOK)
	}
	c.ackBatch("g", c.popPartition("q", "p20", "consumerGroup=g").ok(http.StatusOK).ack("failed")...).ok(http.StatusOK)
	c.ackBatch("g", c.popPartition("q", "p21", "consumerGroup=g").ok(http.StatusOK).ack("dlq")...).ok(http.StatusOK)
	c.popPartition("q", "p30", "consumerGroup=g&batch=3&autoAck=true").ok(http.StatusOK)
	execute(t, producer(t, s.dsn), lots)

	total := ask[api.Totals](c, get("/api/v1/totals?fresh=true")).ok(http.StatusOK)
	unfinished := int64(130*3 - 1 - 3)
	require.Equal(t, [4]int64{unfinished, 10, 50_001, 1}, [4]int64{total.Messages.Pending + total.Messages.Processing, total.Messages.Processing, total.DeadLetters, total.Failing})
	queues := ask[api.QueuePage](c, get("/api/v1/queues")).ok(http.StatusOK)
	require.Equal(t, [3]int64{unfinished, 10, 50_001}, [3]int64{queues.Queues[0].Messages.Pending + queues.Queues[0].Messages.Processing, queues.Queues[0].Messages.Processing, queues.Queues[0].DeadLetters})
	ofGroup := func(g *api.GroupFigures) [4]int64 { return [4]int64{g.Lag, g.LeasedMessages, g.DeadLetters, g.Failing} }
	want := [4]int64{unfinished, 10, 50_001, 1}
	listed := ask[api.GroupPage](c, get("/api/v1/groups")).ok(http.StatusOK)
	require.Equal(t, want, ofGroup(&listed.Groups[0].GroupFigures))
	ofQueue := ask[api.QueueGroups](c, get("/api/v1/resources/queues/q/groups")).ok(http.StatusOK)
	require.Equal(t, want, ofGroup(&ofQueue.Groups[0]))
	shown := ask[api.GroupState](c, get("/api/v1/consumer-groups/g/queues/q")).ok(http.StatusOK)
	require.Equal(t, want, ofGroup(&shown.Group))
	all := ask[[]api.Group](c, get("/api/v1/consumer-groups")).ok(http.StatusOK)
	require.Equal(t, unfinished, all[0].TotalLag)
	problems := ask[api.Problems](c, get("/api/v1/problems")).ok(http.StatusOK)
	require.EqualValues(t, 50_001, problems.Problems[len(problems.Problems)-1].Messages)
	require.EqualValues(t, 50_001, *ask[api.DeadLetterSummary](c, get("/api/v1/dlq/summary?limit=1")).ok(http.StatusOK).Total)

	text := func(page string) string {
		body, err := s.readPage(t.Context(), page, "")
		require.NoError(t, err)
		return strings.ReplaceAll(regexp.MustCompile(`\s+<`).ReplaceAllString(body, "<"), "\u202f", "")
	}
	pending := unfinished - 10
	for page, texts := range map[string][]string{
		"":              {tileOf("Pending", pending), tileOf("In delivery", 10), tileOf("Dead letters", 50_001), "50001 messages failed"},
		"queues":        {fmt.Sprintf("</span>%d</td>", pending), `<td class="n">10</td>`, ">50001</a>"},
		"queue?q=q":     {tileOf("Pending", pending), tileOf("In delivery", 10), tileOf("Dead letters", 50_001), fmt.Sprintf(`<td class="n">%d</td>`, unfinished)},
		"group?q=q&g=g": {tileOf("Left", unfinished), tileOf("In delivery", 10), tileOf("Dead letters", 50_001)},
		"groups":        {fmt.Sprintf(`<td class="n">%d</td>`, unfinished), `<td class="n">10</td>`, ">50001</a>"},
		"dead":          {"50001 dead letters"},
	} {
		for _, part := range texts {
			require.Contains(t, text(page), part, page)
		}
		require.NotRegexp(t, `\d&#43;[ <]`, text(page), "%s: no number is a lower bound", page)
	}
	require.EqualValues(t, pending, member(x.json("queue", "list"), "queues", 0, "messages", "pending"))
	require.EqualValues(t, 50_001, member(x.json("queue", "list", "--sort", "deadLetters"), "queues", 0, "deadLetters"))
	require.EqualValues(t, unfinished, member(x.json("group", "list"), "groups", 0, "lag"))
	scraped, err := s.send(t.Context(), get("/metrics/prometheus"))
	require.NoError(t, err)
	for _, line := range []string{
		fmt.Sprintf(`belfry_group_lag_messages{group="g",queue="q"} %d`, unfinished), `belfry_queue_dead_letters{queue="q"} 50001`, fmt.Sprintf(`belfry_queue_pending_messages{queue="q"} %d`, pending),
	} {
		require.Contains(t, string(scraped.Raw), line+"\n")
	}
}

func tileOf(label string, n int64) string {
	return fmt.Sprintf(`<span class="label">%s</span><span class="figure">%d</span>`, label, n)
}

// While nothing happens, an open page with totals costs no statement. A change by a consumer in SQL arrives.
func TestAnOpenPageWithTotalsIsSilent(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "p", "1", "2")
	c.pop("q", "consumerGroup=g").ok(http.StatusOK)
	open := s.openTab(t, "groups")
	passes := func() (n int64) {
		s.scan(t, `SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relname = 'consumer_group'`, nil, &n)
		return n
	}
	before, at := int64(-1), time.Now()
	until(t, "the server is silent", func() bool {
		if n := passes(); n != before {
			before, at = n, time.Now()
		}
		return time.Since(at) > 3*time.Second // a session reports at most a second late while it works
	})
	reads := open.reads.Load()
	execute(t, producer(t, s.dsn), `SELECT belfry.push('q', '3'::json, 'p')`)
	until(t, "the page shows the message", func() bool {
		body := open.shown.Load()
		return open.reads.Load() > reads && body != nil && strings.Contains(*body, `<td class="n">3</td>`)
	})
}
