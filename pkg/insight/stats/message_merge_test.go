package stats_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

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
	t.Parallel()
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
			require.Equal(t, append([]string{}, skipped[:min(limit, len(skipped))]...), r.list(filter), "%s behind an offset", name)
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
