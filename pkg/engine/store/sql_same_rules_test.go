package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// cursorStates returns the state of each cursor of a group, with its redriven messages and dead letters.
func (b *bench) cursorStates(group string) (text string) {
	b.t.Helper()
	b.scan(`SELECT string_agg(format('%s: committed %s failures %s attempts %s skip %s leased %s end %s consumed %s redrives %s (%s) dead %s',
			c.partition_id, c.committed, c.failures, c.attempts, c.skip, c.lease_id IS NOT NULL, c.lease_end, c.consumed, c.redrives,
			(SELECT string_agg(r.seq || '/' || r.failures || '/' || r.attempts, ' ' ORDER BY r.seq) FROM belfry.redrive r
			  WHERE r.partition_id = c.partition_id AND r.group_id = c.group_id),
			(SELECT string_agg(d.seq || '/' || d.attempts || '/' || d.error, ' ' ORDER BY d.seq) FROM belfry.dead_letter d
			  WHERE d.partition_id = c.partition_id AND d.group_id = c.group_id)), E'\n' ORDER BY c.partition_id)
		FROM belfry.cursor c JOIN belfry.consumer_group g ON g.id = c.group_id WHERE g.name = $1`, []any{group}, &text)
	return text
}

// twins are a consumer of group h through the API and a consumer of group s in SQL. Both make the
// same calls.
type twins struct {
	*bench
	random *rand.Rand
	sql    querier
	held   []queue.Delivery
	popped [][]sqlPopped
}

func (w *twins) pops() {
	batch := 1 + w.random.IntN(4)
	d, popped := w.pop(request("h", batch)), w.sqlPop(w.sql, "s", batch, 1)
	require.Equal(w.t, transactionIDs(d), sqlIDs(popped))
	if len(popped) == 0 {
		return
	}
	for i, m := range d.Messages {
		require.Equal(w.t, m.Attempt, popped[i].Attempt)
	}
	w.held, w.popped = append(w.held, d), append(w.popped, popped)
}

// acks sends the same ack for some messages of one delivery, through the API and in SQL.
func (w *twins) acks() {
	if len(w.held) == 0 {
		return
	}
	at := len(w.held) - 1
	if w.random.IntN(4) == 0 {
		at = w.random.IntN(len(w.held)) // this lease has probably ended
	}
	d, popped := w.held[at], w.popped[at]
	status := []string{"completed", "completed", "failed", "retry", "dlq"}[w.random.IntN(5)]
	// belfry.ack accepts only messages that the lease still covers.
	var done int64
	var parked []int64
	w.scan(`SELECT coalesce(max(committed) FILTER (WHERE lease_end > 0), 0), coalesce(max(parked) FILTER (WHERE lease_end > 0), '{}')
		FROM (SELECT *, ARRAY (SELECT generate_series(lower(s), upper(s) - 1) FROM unnest(skip) AS s) AS parked FROM belfry.cursor) AS cursor WHERE lease_id = $1`, []any{popped[0].Lease}, &done, &parked)
	var messages []queue.Message
	var ids []string
	whole := w.random.IntN(2) == 0
	for i := range popped {
		if seq := d.Messages[i].Seq; seq > done && !slices.Contains(parked, seq) && (whole || w.random.IntN(2) == 0) {
			messages, ids = append(messages, d.Messages[i]), append(ids, popped[i].ID)
		}
	}
	if len(messages) == 0 {
		return
	}
	items := acks(d, queue.ParseAckStatus(status), messages...)
	for i := range items {
		items[i].Error = "the reason"
	}
	results, err := w.Ack(w.t.Context(), items)
	require.NoError(w.t, err)
	if whole {
		ids = nil
	}
	_, err = sqlAck(w.t.Context(), w.sql, popped[0].Lease, ids, status)
	fenced := false
	for _, r := range results {
		fenced = fenced || r.Error != ""
	}
	require.Equal(w.t, fenced, err != nil, "%+v, but in SQL %v", results, err)
}

// An ack in SQL has the same effect as an ack through the API.
func TestSQLAcksFollowTheSameRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("h", "s")
	b.option("retry_limit = 1")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var parked, redriven bool
	w := &twins{bench: b, random: rand.New(rand.NewPCG(seed, 0)), sql: b.connect()}
	for step := range 300 {
		if step%6 == 0 {
			b.push([]string{"p", "other"}[w.random.IntN(2)], fmt.Sprint("a", step), fmt.Sprint("b", step))
		}
		// A pop takes the cursor that has been due longest. So the cursors of both groups get the same
		// order. They are due for less than the 0.5 s that sql/functions/consume/save_scan_floor.sql
		// keeps below a floor.
		b.exec(`UPDATE belfry.cursor SET ready_at = statement_timestamp() - interval '0.1 s' + make_interval(secs => partition_id / 1000.0)
			WHERE ready_at <= statement_timestamp()`)
		switch n := w.random.IntN(20); {
		case n < 8:
			w.pops()
		case n < 18:
			w.acks()
		case n < 19:
			b.endLeases()
		default:
			redriven = b.redrive() > 0 || redriven
		}
		place := b.cursorStates("s")
		parked = parked || strings.Contains(place, "the reason")
		require.Equal(t, b.cursorStates("h"), place, "after step %d of seed %d", step, seed)
	}
	var consumed int
	b.scan(`SELECT sum(consumed) FROM belfry.cursor`, nil, &consumed)
	require.Positive(t, consumed)
	require.True(t, parked)
	require.True(t, redriven)
}
