package attach_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func TestTheMessageOfEachEventAndPayload(t *testing.T) {
	t.Parallel()
	const insert, update, nothing, remove = `INSERT INTO t VALUES (1, 'a', 5)`, `UPDATE t SET b = 'z', id = 2`,
		`UPDATE t SET b = b`, `DELETE FROM t`
	for name, c := range map[string]struct {
		request attach.Request
		want    map[string]string // statement, message
	}{
		"row": {attach.Request{}, map[string]string{
			insert:  `q/Default {"op": "insert", "row": {"b": "a", "n": 5, "id": 1}, "table": "public.t"}`,
			update:  `q/Default {"op": "update", "row": {"b": "z", "n": 5, "id": 2}, "table": "public.t"}`,
			nothing: `q/Default {"op": "update", "row": {"b": "z", "n": 5, "id": 2}, "table": "public.t"}`,
			remove:  `q/Default {"op": "delete", "row": {"b": "z", "n": 5, "id": 2}, "table": "public.t"}`,
		}},
		"changes": {attach.Request{Payload: attach.PayloadChanges}, map[string]string{
			insert:  `q/Default {"op": "insert", "row": {"b": "a", "n": 5, "id": 1}, "table": "public.t"}`,
			update:  `q/Default {"op": "update", "old": {"b": "a", "id": 1}, "row": {"b": "z", "n": 5, "id": 2}, "table": "public.t"}`,
			nothing: ``,
			remove:  `q/Default {"op": "delete", "row": {"b": "z", "n": 5, "id": 2}, "table": "public.t"}`,
		}},
		"columns": {attach.Request{Columns: []string{"b"}}, map[string]string{
			insert:  `q/Default {"op": "insert", "row": {"b": "a"}, "table": "public.t"}`,
			update:  `q/Default {"op": "update", "row": {"b": "z"}, "table": "public.t"}`,
			nothing: `q/Default {"op": "update", "row": {"b": "z"}, "table": "public.t"}`,
			remove:  `q/Default {"op": "delete", "row": {"b": "z"}, "table": "public.t"}`,
		}},
		"key and changes of columns": {attach.Request{Key: []string{"id", "n"}, Columns: []string{"id"}, Payload: attach.PayloadChanges}, map[string]string{
			insert:  `q/1/5 {"op": "insert", "row": {"id": 1}, "table": "public.t"}`,
			update:  `q/2/5 {"op": "update", "old": {"id": 1}, "row": {"id": 2}, "table": "public.t"}`,
			nothing: ``,
			remove:  `q/2/5 {"op": "delete", "row": {"id": 2}, "table": "public.t"}`,
		}},
		"updates under a condition": {attach.Request{Events: []string{"UPDATE"}, Condition: "new.b <> old.b"}, map[string]string{
			insert: ``, nothing: ``, remove: ``,
			update: `q/Default {"op": "update", "row": {"b": "z", "n": 5, "id": 2}, "table": "public.t"}`,
		}},
		"the missing side of a condition is NULL": {attach.Request{Condition: "old.id IS NULL OR new.id IS NULL -- all but updates"}, map[string]string{
			insert: `q/Default {"op": "insert", "row": {"b": "a", "n": 5, "id": 1}, "table": "public.t"}`,
			update: ``, nothing: ``,
			remove: `q/Default {"op": "delete", "row": {"b": "z", "n": 5, "id": 2}, "table": "public.t"}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			p.exec(`CREATE TABLE t (id int PRIMARY KEY, b text, n int)`)
			c.request.Table, c.request.Queue = "t", "q"
			p.attach(c.request)
			for _, statement := range []string{insert, update, nothing, remove} {
				p.exec(statement)
				require.Equal(t, c.want[statement], strings.Join(p.sent(), "\n"), statement)
			}
			require.Zero(t, p.list()[0].Failures)
		})
	}
}

func TestStatementsWithManyRowsSendAMessageForEachRow(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int PRIMARY KEY, v text)`)
	p.attach(attach.Request{Table: "t", Queue: "q", Columns: []string{"id"}})
	const head = `q/Default {"op": "`
	row := func(op, id string) string { return head + op + `", "row": {"id": ` + id + `}, "table": "public.t"}` }

	_, err := p.conn.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"id"}, pgx.CopyFromRows([][]any{{3}, {1}, {2}}))
	require.NoError(t, err)
	require.Equal(t, []string{row("insert", "3"), row("insert", "1"), row("insert", "2")}, p.sent(), "in the order of the rows")
	p.exec(`INSERT INTO t VALUES (4), (1) ON CONFLICT (id) DO UPDATE SET v = 'x'`)
	require.ElementsMatch(t, []string{row("insert", "4"), row("update", "1")}, p.sent())
	p.exec(`UPDATE t SET id = id + 10 WHERE id > 2`)
	require.ElementsMatch(t, []string{row("update", "13"), row("update", "14")}, p.sent())
	p.exec(`DELETE FROM t WHERE id < 0`)
	require.Empty(t, p.sent())
	p.exec(`BEGIN; INSERT INTO t VALUES (20); SAVEPOINT s; INSERT INTO t VALUES (21); ROLLBACK TO s; COMMIT`)
	require.Equal(t, []string{row("insert", "20")}, p.sent(), "a rolled back change sends no message")
}

// A row that moves from one partition to another causes one update message.
func TestChangesOfPartitionedTablesSendMessages(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int, v text) PARTITION BY LIST (v);
		CREATE TABLE t_a PARTITION OF t FOR VALUES IN ('a'); CREATE TABLE t_b PARTITION OF t FOR VALUES IN ('b')`)
	p.attach(attach.Request{Table: "t", Queue: "q", Payload: attach.PayloadChanges, Key: []string{"id"}})
	p.exec(`INSERT INTO t VALUES (1, 'a'), (2, 'b')`)
	require.Len(t, p.sent(), 2)
	p.exec(`UPDATE t SET v = CASE v WHEN 'a' THEN 'b' ELSE 'a' END`)
	require.ElementsMatch(t, []string{
		`q/1 {"op": "update", "old": {"v": "a"}, "row": {"v": "b", "id": 1}, "table": "public.t"}`,
		`q/2 {"op": "update", "old": {"v": "b"}, "row": {"v": "a", "id": 2}, "table": "public.t"}`,
	}, p.sent())
	// A partition can be attached as well. No message is sent twice.
	p.attach(attach.Request{Table: "t_a", Queue: "q"})
	p.exec(`INSERT INTO t_a VALUES (3, 'a'); INSERT INTO t VALUES (4, 'a')`)
	require.Len(t, p.sent(), 2)
}

func TestUnusualIdentifiersWork(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE SCHEMA "Sch.ema'%s"`)
	for _, partitions := range []string{"", ` PARTITION BY LIST ("new"); CREATE TABLE "Sch.ema'%s".u PARTITION OF "Sch.ema'%s"."We ird""T%" DEFAULT`} {
		p.attachUnusualIdentifiers(partitions)
	}
}

func (p *fixture) attachUnusualIdentifiers(partitions string) {
	t := p.t
	t.Helper()
	const table, queueName = `"Sch.ema'%s"."We ird""T%"`, `q'1$belfry$\`
	p.exec(`DROP TABLE IF EXISTS ` + table + `; CREATE TABLE ` + table +
		` ("new" int, "old" text, k int, "a%1$s" int, "to_json(" text, belfry_row int, "x,y""" int, PRIMARY KEY ("new", "a%1$s"))` + partitions)
	for i, payload := range []string{attach.PayloadRow, attach.PayloadChanges} {
		for j, columns := range [][]string{nil, {"new", "old", "k", "a%1$s", "to_json(", "belfry_row", `x,y"`}} {
			p.attach(attach.Request{
				Table: table, Queue: queueName + strings.Repeat("x", 2*i+j), Key: []string{"new", "a%1$s", "to_json("},
				Payload: payload, Columns: columns, Condition: `new."x,y""" = 8 OR old."old" = 'x' -- why not`,
			})
		}
	}
	p.exec(`INSERT INTO ` + table + ` VALUES (1, 'x', 9, 7, 'j', 3, 8)`)
	p.exec(`UPDATE ` + table + ` SET "to_json(" = 'y'`)
	p.exec(`DELETE FROM ` + table)
	sent := p.sent()
	require.Len(t, sent, 12)
	require.Contains(t, sent, queueName+`/1/7/j {"op": "insert", "row": {"k": 9, "new": 1, "old": "x", "x,y\"": 8, "a%1$s": 7, "to_json(": "j", "belfry_row": 3}, "table": "\"Sch.ema'%s\".\"We ird\"\"T%\""}`)
	for _, a := range p.list() {
		require.Zero(t, a.Failures, a.LastFailure)
		require.EqualValues(t, 3, a.Triggers)
	}
	queues, err := p.Detach(t.Context(), table, "")
	require.NoError(t, err)
	require.Len(t, queues, 4)
	p.exec(`INSERT INTO ` + table + ` VALUES (1, 'x', 9, 7, 'j', 3, 8)`)
	require.Empty(t, p.sent())
}

func TestLongKeysAreHashedAndEmptyKeysShareAPartition(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (k text)`)
	p.attach(attach.Request{Table: "t", Queue: "q", Key: []string{"k"}, Events: []string{"insert"}})
	p.exec(`INSERT INTO t VALUES (repeat('ä', 127) || 'x'), (repeat('ä', 128)), (''), (NULL)`)
	sent := p.sent()
	require.True(t, strings.HasPrefix(sent[0], "q/"+strings.Repeat("ä", 127)+"x "))
	require.True(t, strings.HasPrefix(sent[1], "q/md5:"))
	require.True(t, strings.HasPrefix(sent[2], "q/Default "))
	require.True(t, strings.HasPrefix(sent[3], "q/Default "))
}

func TestAttachingAgainReplaces(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int)`)
	p.attach(attach.Request{Table: "t", Queue: "q", Strict: true})
	p.attach(attach.Request{Table: "t", Queue: "another"})
	p.exec(`ALTER TABLE t RENAME TO u`)
	p.attach(attach.Request{Table: "u", Queue: "q", Events: []string{"delete"}, Condition: "old.id > 1"})
	list := p.list()
	require.Len(t, list, 2)
	require.Equal(t, []string{"public.u", "q", "old.id > 1"}, []string{list[1].Table, list[1].Queue, list[1].Condition})
	require.Equal(t, []string{"delete"}, list[1].Events)
	require.False(t, list[1].Strict)
	p.exec(`INSERT INTO u VALUES (2); DELETE FROM u`)
	require.ElementsMatch(t, []string{
		`another/Default {"op": "insert", "row": {"id": 2}, "table": "public.u"}`,
		`another/Default {"op": "delete", "row": {"id": 2}, "table": "public.u"}`,
		`q/Default {"op": "delete", "row": {"id": 2}, "table": "public.u"}`,
	}, p.sent())

	queues, err := p.Detach(t.Context(), "u", "q")
	require.NoError(t, err)
	require.Equal(t, []string{"q"}, queues)
	require.Len(t, p.list(), 1)
	p.exec(`DROP TABLE u; CREATE TABLE v (id int)`)
	require.Contains(t, p.list()[0].Table, "gone")
	queues, err = p.Detach(t.Context(), "v", "")
	require.NoError(t, err)
	require.Empty(t, queues)
	require.Empty(t, p.list(), "the record of the dropped table was deleted")
	var functions int
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_proc WHERE proname LIKE 'belfry\_%'`).Scan(&functions))
	require.Equal(t, 3, functions, "the functions of the dropped table, which no trigger calls")
}

func TestThePrintedSQLIsWhatAttachRuns(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int)`)
	r := attach.Request{Table: "t", Queue: "q", Key: []string{"id"}, Payload: attach.PayloadChanges, Condition: "new.id > 1"}
	text, err := p.SQL(t.Context(), &r)
	require.NoError(t, err)
	require.Empty(t, p.list(), "nothing was run")
	p.exec(text)
	printed := p.list()
	require.EqualValues(t, 3, printed[0].Triggers)
	p.exec(`INSERT INTO t VALUES (1), (2)`)
	require.Equal(t, []string{`q/2 {"op": "insert", "row": {"id": 2}, "table": "public.t"}`}, p.sent())
	p.attach(r)
	attached := p.list()
	printed[0].ID, printed[0].AttachedAt = attached[0].ID, attached[0].AttachedAt
	require.Equal(t, printed, attached)
}

// The lists of the server contain each attachment once, with its failures. Patterns select queues.
func TestTheServerListsAttachments(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int); CREATE TABLE "a b" (id int); ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue NOT LIKE 'bad%')`)
	p.attach(attach.Request{Table: "t", Queue: "good"})
	p.attach(attach.Request{Table: "t", Queue: "bad", Condition: "new.id > 1", Events: []string{"insert"}, Key: []string{"id"}})
	p.attach(attach.Request{Table: `"a b"`, Queue: "good"})
	p.exec(`INSERT INTO t VALUES (2)`)
	lister := attach.NewLister(enginetest.Pool(t, p.conn.Config().ConnString()))
	page := func(allowed []string, after, limit int64) (found []attach.Attachment) {
		found, err := lister.List(t.Context(), allowed, after, limit)
		require.NoError(t, err)
		return found
	}
	first := page(nil, 0, 2)
	require.Len(t, first, 2)
	bad := first[1]
	require.Equal(t, []any{"public.t", "bad", []string{"insert"}, []string{"id"}, int64(1), int64(1)}, []any{bad.Table, bad.Queue, bad.Events, bad.Key, bad.Triggers, bad.Failures})
	require.Contains(t, bad.LastFailure, "broken")
	require.False(t, bad.LastFailedAt.IsZero())
	second := page(nil, bad.ID, 2)
	require.Len(t, second, 1)
	require.Equal(t, `public."a b"`, second[0].Table)
	require.Empty(t, page(nil, second[0].ID, 2))
	only := page([]string{"b*"}, 0, 2)
	require.Len(t, only, 1)
	require.Equal(t, bad, only[0])
}
