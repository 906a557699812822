package inbox

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
)

func TestPushFunction(t *testing.T) {
	r := newFixture(t)
	s := r.session()
	s.exec(`SELECT belfry.push('q', '{"untyped": 1}', 'a', 'one')`)
	s.exec(`SELECT belfry.push('q', json_build_object('json', 2), partition => 'a', transaction_id => 'two')`)
	s.exec(`SELECT belfry.push('q', jsonb_build_object('jsonb', 3), 'a', transaction_id => 'three',
		delay => '1 hour', trace_id => '00000000-0000-7000-8000-000000000001')`)
	s.exec(`SELECT belfry.push('q', '1', 'a', 'one')`)
	var made string
	require.NoError(t, s.QueryRow(enginetest.Context(t), `SELECT belfry.push('q', '4')`).Scan(&made))
	r.runStep()
	require.Equal(t, []string{"one", "two", "three"}, r.stored("a"))
	require.Equal(t, []string{made}, r.stored("Default"))
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, made)
	require.Equal(t, []string{`{"untyped": 1}`, `{"json" : 2}`, `{"jsonb": 3}`}, r.texts(
		"SELECT m.payload::text FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id WHERE p.name = 'a' ORDER BY m.seq"))
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.message m
		WHERE m.trace_id IS NOT NULL AND m.visible_at BETWEEN now() + interval '59 min' AND now() + interval '61 min'`))
}

func TestPushMany(t *testing.T) {
	r := newFixture(t)
	s := r.session()
	rows, err := s.Query(enginetest.Context(t), `SELECT m.index, m.id FROM belfry.push_many('q',
		ARRAY ['1', '2', '3']::json[], partitions => ARRAY ['a', 'a', NULL], transaction_ids => ARRAY ['x', NULL, 'z']) AS m`)
	require.NoError(t, err)
	var ids []string
	for rows.Next() {
		var index int64
		var id string
		require.NoError(t, rows.Scan(&index, &id))
		ids = append(ids, id)
		require.Equal(t, int64(len(ids)), index)
	}
	require.NoError(t, rows.Err())
	r.runStep()
	require.Equal(t, []string{"x", ids[1]}, r.stored("a"))
	require.Equal(t, []string{"z"}, r.stored("Default"))
	s.exec(`SELECT belfry.push_many('q', '{}')`)
	require.Zero(t, r.waiting())
	s.exec(`SELECT belfry.push_many('q', ARRAY ['1', '2']::json[], partitions => '[0:1]={b,c}', transaction_ids => '{{v},{w}}')`)
	r.runStep()
	require.Equal(t, []string{"v"}, r.stored("b"), "the lower bound of an array may differ from 1")
	require.Equal(t, []string{"w"}, r.stored("c"))
}

func TestPushErrorsNameTheProblem(t *testing.T) {
	r := newFixture(t)
	s := r.session()
	for statement, want := range map[string]string{
		`SELECT belfry.push(NULL, '1')`: "22004 the queue is NULL / Name the queue in the first argument: " +
			`belfry.push('orders', '{"id": 1}').`,
		`SELECT belfry.push('', '1')`:                                                       "22023 the name of the queue is 0 bytes long / A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.",
		`SELECT belfry.push(repeat('x', 256), '1')`:                                         "22023 the name of the queue is 256 bytes long / A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.",
		`SELECT belfry.push('q', '1', repeat('x', 256))`:                                    "22023 belfry.push: the name of the partition is 256 bytes long / A name has at most 255 bytes, and is not . or .., because clients remove these from paths.",
		`SELECT belfry.push('q', '1', transaction_id => repeat('x', 256))`:                  "22023 belfry.push: the transaction id is 256 characters long / At most 255 characters are allowed. Use a hash of the id instead.",
		`SELECT belfry.push('q', NULL)`:                                                     "22004 belfry.push: the payload is NULL / For the JSON value null write 'null'. To make JSON from a row write to_json(row).",
		`SELECT belfry.push('q', 'hello')`:                                                  "22P02 belfry.push: the payload is not valid JSON: hello / Make a JSON string from a text with to_json(x::text), and an object from a row with to_json(row).",
		`SELECT belfry.push('q', '1', delay => '1 hour', visible_at => now())`:              "22023 delay and visible_at are both given / Give one of them.",
		`SELECT belfry.push('q', '1', delay => '-1 s')`:                                     "22023 the delay -00:00:01 is negative / Leave delay out for a message without a delay.",
		`SELECT belfry.push_many('q', ARRAY ['1']::json[], partitions => ARRAY ['a', 'b'])`: "2202E belfry.push_many: there are 1 payloads, 2 partitions, 0 transaction ids and 0 headers / Give one for each payload, or leave the array out.",
		`SELECT belfry.push_many('q', ARRAY ['1', NULL]::json[])`: "22023 belfry.push_many: message 2 cannot be pushed / " +
			"A payload must not be NULL, a partition has at most 255 bytes and is not . or .., a transaction id at most 255 characters.",
	} {
		require.Equal(t, want, s.fails(statement), statement)
	}
	require.Contains(t, s.fails(`SELECT belfry.push('q', '1', delay => '2 years')`), "Give a delay of at most 365 days.")
	require.NotContains(t, s.fails(`SELECT belfry.push_many(NULL, ARRAY ['1']::json[])`), "belfry.push:")
	require.Zero(t, r.waiting())
}

// A transaction sends one notification. With belfry.notify = off, in any spelling, it sends no notification and takes no
// lock. A call of belfry.wake always sends one.
func TestNotifyOffSendsNothingAndTakesNoLock(t *testing.T) {
	r := newFixture(t)
	s, listener := r.session(), r.listener()
	for value, loud := range map[string]int{
		"off": 0, "OFF": 0, "False": 0, "no": 0, "0": 0, "on": 1, "": 1, "1": 1,
	} {
		s.exec("BEGIN")
		s.exec("SELECT set_config('belfry.notify', $1, true)", value)
		s.insert("a", value)
		s.insert("a", "again "+value)
		require.Equal(t, int64(loud), r.locks(sleepLock, true), value)
		s.exec("COMMIT")
		require.Equal(t, loud, listener.notified(), value)
	}
	s.exec("SET belfry.notify = off")
	s.exec("SELECT belfry.wake()")
	require.Equal(t, 1, listener.notified())
	require.Zero(t, r.number("SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = 'belfry.inbox'::regclass AND t.tgqual IS NOT NULL"),
		"no trigger has a WHEN condition, because every statement would plan it")
}

// Libraries that map a table write every column, with NULL where the program has no value.
func TestInsertsOfLibraries(t *testing.T) {
	r := newFixture(t)
	producer, other := r.session(), r.session()
	for _, s := range []session{producer, other} {
		s.exec(`SET ROLE belfry_producer`)
	}
	const insert = `INSERT INTO belfry.outbox (queue, partition, payload, transaction_id, trace_id, visible_at)
		VALUES ($1, NULL, $2, $3, NULL, NULL) RETURNING *`
	type order struct {
		ID int `json:"id"`
	}
	tx, err := producer.Begin(enginetest.Context(t))
	require.NoError(t, err)
	rows, err := tx.Query(enginetest.Context(t), insert, "q", order{7}, "one")
	require.NoError(t, err)
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
	require.NoError(t, err)
	require.Equal(t, []any{"q", map[string]any{"id": 7.0}, "one"}, []any{row["queue"], row["payload"], row["transaction_id"]})
	require.NoError(t, tx.Commit(enginetest.Context(t)))

	producer.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('q', NULL, '2', 'two')`)
	producer.exec(`SELECT belfry.push('q', $1::json, transaction_id => 'three')`, order{9})
	producer.exec(`INSERT INTO belfry.inbox (queue, partition, payload) VALUES (repeat('q', 300), NULL, '4')`)
	for _, s := range []session{producer, other} {
		require.Contains(t, s.fails(`SELECT payload FROM belfry.inbox`), "42501", "a producer cannot read messages of other producers")
		require.Zero(t, enginetest.Value[int](t, s, `SELECT count(*) FROM belfry.outbox`), "the outbox has only the messages of the open transaction")
	}
	r.runStep()
	require.Equal(t, []string{"one", "two", "three"}, r.stored("Default"))
	require.Equal(t, []string{"Default"}, r.texts(`SELECT partition FROM belfry.inbox_rejected`))
}
