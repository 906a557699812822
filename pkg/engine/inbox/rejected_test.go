package inbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// reject fills the table: n rows of the queue with the code. Their transaction ids are the name of the queue and
// a number from 1.
func (r *fixture) plantRejected(queueName, code string, n int) {
	r.t.Helper()
	r.exec(`INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, transaction_id, inserted_at, code, reason)
		SELECT coalesce((SELECT max(id) FROM belfry.inbox_rejected), 0) + i, $1, 'p', to_json(i), $1 || i, now(), $2, 'a reason'
		  FROM generate_series(1, $3::int) AS i`, queueName, code, n)
}

func ids(list RejectedList) (all []string) {
	for _, row := range list.Rows {
		all = append(all, *row.TransactionID)
	}
	return all
}

func text(s string) *string { return &s }

// A list reads a bounded number of rows. Its pages together have each matching row once, newest first.
func TestRejectedRowsAreListedInBoundedPages(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	rejections := NewRejections(r.Pool)
	empty, err := rejections.List(enginetest.Context(t), RejectedFilter{}, 0, 10)
	require.NoError(t, err)
	require.Equal(t, RejectedList{}, empty)

	r.plantRejected("a", "queue_full", 3)
	r.plantRejected("b", "invalid", 4)
	rejections.examined = 3
	var found []string
	var before int64
	for page := 0; ; page++ {
		list, err := rejections.List(enginetest.Context(t), RejectedFilter{Queue: text("a"), Allowed: []string{"a*"}}, before, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, list.Examined, int64(3))
		found = append(found, ids(list)...)
		if before = list.Next; before == 0 {
			require.Equal(t, 2, page, "the three newest of b, then b1 and two of a, then a1")
			break
		}
	}
	require.Equal(t, []string{"a3", "a2", "a1"}, found)
	rejections.examined = maxExamined
	list, err := rejections.List(enginetest.Context(t), RejectedFilter{Code: text("invalid")}, 0, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"b4", "b3", "b2", "b1"}, ids(list))
	require.Zero(t, list.Next)
	list, err = rejections.List(enginetest.Context(t), RejectedFilter{Allowed: []string{"c*"}}, 0, 10)
	require.NoError(t, err)
	require.Empty(t, list.Rows)
}

// Each row shows why it was rejected and the beginning of its payload. A payload that is too large to read is left out.
func TestARejectedRowShowsItsReason(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s := r.session()
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at)
		VALUES ('q', 'p', to_json(repeat('x', 2000)), 't', '00000000-0000-7000-8000-000000000001', 'infinity')`)
	r.runStep()
	r.exec(`INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, inserted_at, code, reason)
		SELECT 1000, 'q', 'p', to_json(string_agg(md5(i::text), '')), now(), 'invalid', 'large' FROM generate_series(1, 60000) AS i`)
	list, err := NewRejections(r.Pool).List(enginetest.Context(t), RejectedFilter{}, 0, 10)
	require.NoError(t, err)
	require.Len(t, list.Rows, 2)
	large, small := list.Rows[0], list.Rows[1]
	require.Nil(t, large.Excerpt)
	require.Greater(t, large.StoredBytes, int64(1<<20))
	require.Equal(t, `"`+strings.Repeat("x", 999), *small.Excerpt)
	require.Equal(t, "too_large: the payload has 2002 bytes: at most 1000 are allowed (http.max_body_bytes)", small.Code+": "+small.Reason)
	require.Equal(t, "q p t", *small.Queue+" "+*small.Partition+" "+*small.TransactionID)
	require.Equal(t, "00000000-0000-7000-8000-000000000001", small.TraceID.String())
	require.Zero(t, small.VisibleAt, "infinity")
	require.False(t, small.InsertedAt.IsZero())
	require.False(t, small.RejectedAt.Before(small.InsertedAt))
}

// A name that is not UTF-8 does not hide the list.
func TestUnreadableRejectedRowsAreListed(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EncodedDatabase(t, "SQL_ASCII")
	r := &fixture{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
	r.session().exec(`INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, transaction_id, inserted_at, code, reason)
		SELECT i, 'q' || CASE i WHEN 1 THEN bad ELSE '' END, 'p' || CASE i WHEN 2 THEN bad ELSE '' END, ('"x' || CASE i WHEN 3 THEN bad ELSE '' END || '"')::json,
		       't' || CASE i WHEN 4 THEN bad ELSE '' END, now(), 'invalid', 'not UTF-8'
		  FROM generate_series(1, 4) AS i, convert_from('\xe9', 'SQL_ASCII') AS bad`)
	list, err := NewRejections(r.Pool).List(enginetest.Context(t), RejectedFilter{}, 0, 10)
	require.NoError(t, err)
	var shown []string
	for _, row := range list.Rows {
		for _, name := range []*string{row.Queue, row.Partition, row.Excerpt, row.TransactionID} {
			if name == nil {
				name = text("-")
			}
			shown = append(shown, *name)
		}
	}
	require.Equal(t, strings.Fields(`q p "x" - q p - t q - "x" t - p "x" t`), shown)
}

// Retry takes the rows that match, in their order, and Discard deletes them. Rows that are rejected meanwhile
// are not taken.
func TestRejectedRowsAreRetriedAndDiscarded(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	rejections := NewRejections(r.Pool)
	rejections.page = 2
	r.plantRejected("a", "queue_full", 5)
	r.plantRejected("b", "invalid", 3)
	waiting := func() []string {
		return r.texts("SELECT i.transaction_id FROM belfry.inbox i ORDER BY i.id")
	}
	check := func(rows int64, more bool, err error) (int64, bool) {
		require.NoError(t, err)
		return rows, more
	}
	row := r.number("SELECT id FROM belfry.inbox_rejected WHERE transaction_id = 'a3'")
	rows, _ := check(rejections.Retry(enginetest.Context(t), RejectedFilter{ID: row, Queue: text("b")}))
	require.Zero(t, rows, "the row is of another queue")
	rows, _ = check(rejections.Retry(enginetest.Context(t), RejectedFilter{ID: row, Queue: text("a")}))
	require.Equal(t, int64(1), rows)
	require.Equal(t, []string{"a3"}, waiting())

	rows, more := check(rejections.Retry(enginetest.Context(t), RejectedFilter{Code: text("queue_full")}))
	require.Equal(t, int64(4), rows)
	require.False(t, more)
	require.Equal(t, []string{"a3", "a1", "a2", "a4", "a5"}, waiting())
	r.runStep()
	require.Equal(t, int64(5), r.number("SELECT count(*) FROM belfry.message"))

	rejections.budget = 0
	rows, more = check(rejections.Discard(enginetest.Context(t), RejectedFilter{}))
	require.Zero(t, rows)
	require.True(t, more)
	rejections.budget = rejectedBudget
	rows, more = check(rejections.Discard(enginetest.Context(t), RejectedFilter{Queue: text("b")}))
	require.Equal(t, int64(3), rows)
	require.False(t, more)
	require.Empty(t, r.rejected())
	require.Empty(t, waiting())
	rows, _ = check(rejections.Discard(enginetest.Context(t), RejectedFilter{}))
	require.Zero(t, rows)
	require.Equal(t, int64(5), r.number("SELECT count(*) FROM belfry.message"))
}
