package inbox

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func (r *fixture) rejected() []string {
	r.t.Helper()
	return r.texts("SELECT r.transaction_id || ' ' || r.code || ': ' || r.reason FROM belfry.inbox_rejected r ORDER BY r.id")
}

func TestInvalidRowsAreRejected(t *testing.T) {
	r := newFixture(t)
	s := r.session()
	long := strings.Repeat("ü", 128)
	s.exec("BEGIN")
	s.insert("a", "before")
	s.exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ($1, '1', 'bad queue')`, long)
	s.insert(long, "bad partition")
	s.exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ('q', to_json(repeat('x', 2000)), 'large')`)
	s.exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id, visible_at) VALUES ('q', '1', 'never', 'infinity')`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, visible_at) VALUES ('q', 'a', '1', 'always', '-infinity')`)
	s.insert("a", strings.Repeat("x", 256))
	s.insert("a", "behind")
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"before", "always", "behind"}, r.stored("a"))
	require.Zero(t, r.waiting())
	require.Equal(t, []string{
		"bad queue invalid: the name of the queue is 256 bytes long: at most 255 are allowed",
		"bad partition invalid: the name of the partition is 256 bytes long: at most 255 are allowed",
		"large too_large: the payload has 2002 bytes: at most 1000 are allowed (http.max_body_bytes)",
		"never invalid: visible_at is more than a year away",
		strings.Repeat("x", 256) + " invalid: transaction_id is 256 characters long: at most 255 are allowed",
	}, r.rejected())
	require.Equal(t, int64(5), enginetest.Metric(t, r.reg, "belfry_inbox_rejected_total"))
	counts, err := r.Counts(enginetest.Context(t))
	require.NoError(t, err)
	require.Equal(t, int64(5), counts.Rejected)
}

// The rows that exceed maxSize are rejected. Rows of other queues are not. Rejected rows can be
// retried.
func TestAFullQueueRejects(t *testing.T) {
	r := newFixture(t)
	r.exec(`SELECT belfry.push('q', '0', 'a', 'zero')`)
	r.runStep()
	r.exec("UPDATE belfry.queue SET max_size = 3 WHERE name = 'q'")
	s := r.session()
	s.exec("BEGIN")
	for _, id := range []string{"one", "two", "three", "three"} {
		s.insert("a", id)
	}
	s.exec(`INSERT INTO belfry.inbox (queue, payload) VALUES ('other', '1')`)
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"zero", "one", "two"}, r.stored("a"))
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.queue WHERE name = 'other'"))
	require.Len(t, r.rejected(), 2)
	require.Contains(t, r.rejected()[0], "three queue_full: ")

	r.exec("UPDATE belfry.queue SET max_size = 10 WHERE name = 'q'")
	require.Equal(t, int64(2), r.number("SELECT belfry.inbox_retry()"))
	enginetest.Await(t, "the retried rows are stored", func() bool {
		r.runStep()
		if len(r.rejected()) > 0 {
			r.number("SELECT belfry.inbox_retry()")
		}
		return len(r.stored("a")) == 4
	})
	require.Equal(t, "three", r.stored("a")[3])
}

// A row that the database refuses is found by halving the batch. The other rows keep their order.
func TestARefusedRowIsFoundInABatch(t *testing.T) {
	r := newFixture(t)
	r.exec("ALTER TABLE belfry.message ADD CONSTRAINT no_three CHECK (transaction_id <> 'm3')")
	s := r.session()
	s.exec("BEGIN")
	for _, id := range numbered("m", 8) {
		s.insert("a", id)
	}
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"m0", "m1", "m2", "m4", "m5", "m6", "m7"}, r.stored("a"))
	require.Len(t, r.rejected(), 1)
	require.Contains(t, r.rejected()[0], "m3 invalid: the database refused a value")
}

// The sequencer rejects no row because of an error that is not caused by a row.
func TestAnErrorWithoutACausingRowRejectsNothing(t *testing.T) {
	r := newFixture(t)
	r.exec("ALTER TABLE belfry.message RENAME TO away")
	r.session().insert("a", "one")
	_, err := r.step(enginetest.Context(t))
	require.Error(t, err)
	require.Empty(t, r.rejected())
	r.exec("ALTER TABLE belfry.away RENAME TO message")
	r.runStep()
	require.Equal(t, []string{"one"}, r.stored("a"))
}

func TestQueueOptionsApply(t *testing.T) {
	r := newFixture(t)
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("ab", 32))})
	require.NoError(t, err)
	r.instance = newInstance(t, r.dsn, sealer)
	r.exec(`INSERT INTO belfry.queue (name, encryption_enabled) VALUES ('q', true)`)
	s := r.session()
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, trace_id, visible_at)
		VALUES ('q', 'a', '"secret"', '00000000-0000-7000-8000-000000000001', now() + interval '1 hour')`)
	s.insert("b", "same")
	s.insert("b", "same")
	r.runStep()
	require.Equal(t, int64(2), r.number(`SELECT count(*) FROM belfry.message m WHERE m.encrypted AND m.payload::text NOT LIKE '%secret%'
		AND m.payload::text NOT LIKE $1`, "%"+base64.StdEncoding.EncodeToString([]byte(`"secret"`))+"%"))
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.message m
		WHERE m.visible_at > now() + interval '59 minutes' AND m.trace_id = '00000000-0000-7000-8000-000000000001'`))
	require.Equal(t, []string{"same"}, r.stored("b"))
	require.Equal(t, int64(1), enginetest.Metric(t, r.reg, "belfry_inbox_duplicates_total"))
}

// A row that cannot be encrypted is rejected, and its neighbours are stored. With a key it can be
// retried.
func TestARowThatCannotBeSealedIsRejected(t *testing.T) {
	r := newFixture(t)
	r.exec(`INSERT INTO belfry.queue (name, encryption_enabled) VALUES ('secret', true)`)
	s := r.session()
	s.exec("BEGIN")
	s.insert("a", "before")
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('secret', 'a', '1', 'sealed'), ('secret', 'b', '1', 'sealed too')`)
	s.insert("a", "behind")
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"before", "behind"}, r.stored("a"))
	require.Len(t, r.rejected(), 2)
	require.Contains(t, r.rejected()[0], `sealed invalid: queue "secret" has encryptionEnabled`)
	require.Contains(t, r.rejected()[1], "set encryption.key")
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
		JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'secret'`))

	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("ab", 32))})
	require.NoError(t, err)
	r.resign(enginetest.Context(t))
	r.instance = newInstance(t, r.dsn, sealer)
	require.Equal(t, int64(2), r.number("SELECT belfry.inbox_retry()"))
	r.runStep()
	require.Equal(t, int64(2), r.number(`SELECT count(*) FROM belfry.message m WHERE m.encrypted`))
}

// plantRejected adds n rejected rows of the queue with the code. Their transaction ids are the name of the queue
// and a number from 1.
func (r *fixture) plantRejected(queueName, code string, n int) {
	r.t.Helper()
	r.exec(`INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, transaction_id, inserted_at, code, reason)
		SELECT coalesce((SELECT max(id) FROM belfry.inbox_rejected), 0) + i, $1, 'p', to_json(i), $1 || i, now(), $2, 'a reason'
		  FROM generate_series(1, $3::int) AS i`, queueName, code, n)
}

func ids(list RejectedList) (all []string) {
	for _, one := range list.Rows {
		all = append(all, *one.TransactionID)
	}
	return all
}

func text(s string) *string { return &s }

// A list reads a bounded number of rows. Its pages together have each matching row once, newest first.
func TestRejectedRowsAreListedInBoundedPages(t *testing.T) {
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

// Each row has the reason of its rejection and the beginning of its payload. List leaves out a payload that is too
// large to read.
func TestARejectedRowShowsItsReason(t *testing.T) {
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

// A row with a name that is not UTF-8 does not make List fail.
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
	for _, one := range list.Rows {
		for _, name := range []*string{one.Queue, one.Partition, one.Excerpt, one.TransactionID} {
			if name == nil {
				name = text("-")
			}
			shown = append(shown, *name)
		}
	}
	require.Equal(t, strings.Fields(`q p "x" - q p - t q - "x" t - p "x" t`), shown)
}

// Retry moves matching rows back to the inbox in their order, and Discard deletes matching rows. Both leave
// out rows that are rejected meanwhile.
func TestRejectedRowsAreRetriedAndDiscarded(t *testing.T) {
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
	one := r.number("SELECT id FROM belfry.inbox_rejected WHERE transaction_id = 'a3'")
	rows, _ := check(rejections.Retry(enginetest.Context(t), RejectedFilter{ID: one, Queue: text("b")}))
	require.Zero(t, rows, "the row belongs to another queue")
	rows, _ = check(rejections.Retry(enginetest.Context(t), RejectedFilter{ID: one, Queue: text("a")}))
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

// Some encodings allow texts that are not convertible to UTF-8: SQL_ASCII allows any bytes, EUC_JP has
// characters that Unicode lacks. Rows with such a text are rejected and block no other row.
func TestUnreadableRowsAreRejected(t *testing.T) {
	t.Parallel()
	for encoding, unreadable := range map[string]string{"SQL_ASCII": `\xe9`, "EUC_JP": `\x8fa2a1`} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.EncodedDatabase(t, encoding)
			r := &fixture{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
			r.runStep() // so that the next scan is not a full scan
			s := r.session()
			s.insert("a", "before")
			bad := fmt.Sprintf(`convert_from('%s', '%s')`, unreadable, encoding)
			for _, columns := range []string{
				`('q' || ` + bad + `, 'a', '{}', 'queue')`, `('q', 'a' || ` + bad + `, '{}', 'partition')`,
				`('q', 'a', ('"' || ` + bad + ` || '"')::json, 'payload')`, `('q', 'a', '{}', 'id' || ` + bad + `)`,
			} {
				s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ` + columns)
			}
			s.insert("a", "behind")
			r.runStep()
			require.Equal(t, []string{"before", "behind"}, r.stored("a"))
			require.Zero(t, r.waiting())
			require.Equal(t, []string{"queue", "partition", "payload", "id"}, r.texts(
				`SELECT substring(transaction_id FROM '^[a-z]+') FROM belfry.inbox_rejected WHERE code = 'invalid' AND reason LIKE '%UTF-8%' ORDER BY id`))
		})
	}
}

// The search for an unreadable row may time out because of large rows. It then searches fewer rows per statement. The
// test uses rows with the payload "large" in place of large rows: a statement that checks five such rows times out.
func TestUnreadableRowsAreFoundAmongLargeRows(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EncodedDatabase(t, "SQL_ASCII")
	r := &fixture{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
	r.runStep()
	s := r.session()
	s.exec(`ALTER FUNCTION belfry.is_utf8 RENAME TO is_utf8_of_any_size;
		CREATE SEQUENCE public.timeouts;
		CREATE FUNCTION belfry.is_utf8(p_text text) RETURNS boolean LANGUAGE plpgsql AS $$
		DECLARE
		    v_statement text := extract(epoch FROM statement_timestamp())::text;
		    v_large     int := 0;
		BEGIN
		    IF p_text = '"large"' THEN
		        IF split_part(current_setting('test.large', true), ' ', 1) = v_statement THEN
		            v_large := split_part(current_setting('test.large'), ' ', 2)::int;
		        END IF;
		        PERFORM set_config('test.large', v_statement || ' ' || v_large + 1, false);
		        IF v_large = 4 THEN
		            PERFORM nextval('public.timeouts');
		            RAISE 'canceling statement due to statement timeout' USING ERRCODE = 'query_canceled';
		        END IF;
		    END IF;
		    RETURN belfry.is_utf8_of_any_size(p_text);
		END $$`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) SELECT 'q', 'a', '"large"', 'l' || i FROM generate_series(1, 3) AS i`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('q', 'a', '{}', convert_from('\xe9', 'SQL_ASCII'))`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) SELECT 'q', 'a', '"large"', 'm' || i FROM generate_series(1, 20) AS i`)
	r.runStep()
	require.Len(t, r.stored("a"), 23)
	require.Zero(t, r.waiting())
	require.EqualValues(t, 1, r.number("SELECT count(*) FROM belfry.inbox_rejected"))
	require.EqualValues(t, 1, r.number("SELECT count(*) FROM public.timeouts WHERE is_called"), "a search timed out")
}
