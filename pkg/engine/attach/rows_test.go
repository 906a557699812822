package attach_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// Columns after a dropped column keep their values. The column may be dropped before or after the
// table is attached.
func TestADroppedColumnShiftsNoOtherColumn(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (gone int, id int, a text, then_gone text, b text, n int); ALTER TABLE t DROP gone`)
	p.attach(attach.Request{Table: "t", Queue: "changes", Payload: attach.PayloadChanges, Events: []string{"update"}})
	p.attach(attach.Request{Table: "t", Queue: "when", Condition: "new.b = 'B2' AND old.a = 'A'", Events: []string{"update"}})
	p.exec(`INSERT INTO t VALUES (1, 'A', 'x', 'B', 5)`)
	p.exec(`UPDATE t SET b = 'B2'`)
	require.ElementsMatch(t, []string{
		`changes/Default {"op": "update", "old": {"b": "B"}, ` +
			`"row": {"a": "A", "b": "B2", "n": 5, "id": 1, "then_gone": "x"}, "table": "public.t"}`,
		`when/Default {"op": "update", "row": {"a": "A", "b": "B2", "n": 5, "id": 1, "then_gone": "x"}, "table": "public.t"}`,
	}, p.sent())
	p.exec(`ALTER TABLE t DROP then_gone; ALTER TABLE t ADD later int DEFAULT 7`)
	p.exec(`UPDATE t SET n = 6`)
	require.ElementsMatch(t, []string{
		`changes/Default {"op": "update", "old": {"n": 5}, "row": {"a": "A", "b": "B2", "n": 6, "id": 1, "later": 7}, "table": "public.t"}`,
		`when/Default {"op": "update", "row": {"a": "A", "b": "B2", "n": 6, "id": 1, "later": 7}, "table": "public.t"}`,
	}, p.sent())
	for _, a := range p.list() {
		require.Zero(t, a.Failures, a.LastFailure)
	}
}

func TestAKeyHasOnePartitionInEverySession(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE DOMAIN day AS date; CREATE TYPE kind AS ENUM ('a');
		CREATE TABLE t (id int, k kind, d day, at timestamptz, f float8, b bytea, i interval, ds date[])`)
	p.attach(attach.Request{Table: "t", Queue: "q", Key: []string{"id", "k", "d", "at", "f", "b", "i", "ds"}, Columns: []string{"id"}})
	p.exec(`INSERT INTO t VALUES (1, 'a', '2026-02-01', '2026-02-01 03:04Z', 0.1::float8 + 0.2, '\x00ff', '1 day 2 hours', '{2026-02-01}')`)
	p.exec(`SET DateStyle = German; SET TimeZone = 'Asia/Tokyo'; SET extra_float_digits = -5; SET bytea_output = 'escape';
		SET IntervalStyle = iso_8601; DELETE FROM t`)
	const partition = `q/1/a/2026-02-01/2026-02-01 03:04:00+00/0.30000000000000004/\x00ff/1 day 02:00:00/{2026-02-01} `
	require.Equal(t, []string{
		partition + `{"op": "insert", "row": {"id": 1}, "table": "public.t"}`,
		partition + `{"op": "delete", "row": {"id": 1}, "table": "public.t"}`,
	}, p.sent())
}

// Only the condition may use functions in the schema of the table. The key uses only functions of
// Postgres.
func TestTheKeyUsesOnlyFunctionsOfPostgres(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int, paid bool);
		CREATE FUNCTION array_to_string(text[], text) RETURNS text LANGUAGE sql AS $$ SELECT 'not this one' $$`)
	p.attach(attach.Request{Table: "t", Queue: "q", Key: []string{"id"}, Condition: "new.paid"})
	p.exec(`INSERT INTO t VALUES (1, true)`)
	require.Equal(t, []string{`q/1 {"op": "insert", "row": {"id": 1, "paid": true}, "table": "public.t"}`}, p.sent())
}

func TestAConditionIsOneExpression(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int)`)
	for _, condition := range []string{
		"true); CREATE TABLE made (); SELECT (true",
		"true; CREATE TABLE made ()",
		"true THEN true END; CREATE TABLE made (); SELECT CASE WHEN true",
		"true) OR (true",
		"true) ORDER BY (1",
	} {
		_, err := p.SQL(t.Context(), &attach.Request{Table: "t", Queue: "q", Condition: condition})
		require.ErrorContains(t, err, "cannot be used", condition)
	}
	require.Nil(t, enginetest.Value[*string](t, p.conn, `SELECT to_regclass('made')::text`), "printing runs nothing")
}

// Postgres has no transition rows for foreign tables, and statements on such tables would fail.
func TestATableWithForeignPartitionsIsRefused(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
		CREATE TABLE t (id int) PARTITION BY RANGE (id);
		CREATE TABLE near PARTITION OF t FOR VALUES FROM (0) TO (10);
		CREATE TABLE middle PARTITION OF t FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
		CREATE FOREIGN TABLE far PARTITION OF middle FOR VALUES FROM (10) TO (15) SERVER nowhere`)
	err := p.Attach(t.Context(), &attach.Request{Table: "t", Queue: "q"})
	require.ErrorContains(t, err, "foreign table as a partition or child")
	p.attach(attach.Request{Table: "near", Queue: "q"})
	p.exec(`DROP FOREIGN TABLE far`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
}

// The error names the missing right. A role without rights cannot run the functions of Belfry, so
// the client adds the hint.
func TestErrorsNameTheMissingRight(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int)`)
	nobody := p.role("nobody")
	client := p.clientAs(nobody)
	const missing = "GRANT belfry_producer TO"
	require.ErrorContains(t, client.Attach(t.Context(), &attach.Request{Table: "t", Queue: "q"}), missing)
	_, err := client.List(t.Context())
	require.ErrorContains(t, err, missing)
	_, err = client.Detach(t.Context(), "t", "")
	require.ErrorContains(t, err, missing)
	p.exec("GRANT belfry_consumer TO " + nobody)
	_, err = client.List(t.Context())
	require.ErrorContains(t, err, missing)

	err = p.Attach(t.Context(), &attach.Request{Table: "t", Queue: "q", Condition: "nosuch(new.id)"})
	require.ErrorContains(t, err, "does not exist")
	require.NotContains(t, err.Error(), "up to date", "the missing function does not belong to Belfry")
}

// clientAs returns a client with the rights of a role.
func (p *fixture) clientAs(role string) *attach.Client {
	p.t.Helper()
	dsn, err := url.Parse(p.conn.Config().ConnString())
	require.NoError(p.t, err)
	query := dsn.Query()
	query.Set("role", strings.Trim(role, `"`))
	dsn.RawQuery = query.Encode()
	client, err := attach.Open(p.t.Context(), dsn.String())
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, client.Close(context.Background())) })
	return client
}

// createSwallowingTable creates a table in which rows 2 and 5 vanish when they move to partition b.
func createSwallowingTable(p *fixture) {
	p.t.Helper()
	p.exec(`CREATE TABLE t (id int, v text, n int) PARTITION BY LIST (v);
		CREATE TABLE t_a PARTITION OF t FOR VALUES IN ('a'); CREATE TABLE t_b PARTITION OF t FOR VALUES IN ('b');
		CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER swallow BEFORE INSERT ON t_b FOR EACH ROW WHEN (new.id IN (2, 5)) EXECUTE FUNCTION swallow();
		INSERT INTO t VALUES (1, 'a', 10), (2, 'a', 20), (3, 'a', 30), (4, 'a', 40)`)
}

// If a trigger removes a row that moves to another partition, the old values of the other rows are
// unknown. No message has wrong old values.
func TestARemovedRowShiftsNoOtherRow(t *testing.T) {
	p := newFixture(t)
	createSwallowingTable(p)
	p.attach(attach.Request{Table: "t", Queue: "q", Payload: attach.PayloadChanges, Key: []string{"id"}})
	p.exec(`UPDATE t SET v = 'b', n = n + 1`)
	require.Equal(t, []string{
		`q/1 {"op": "update", "old": null, "row": {"n": 11, "v": "b", "id": 1}, "table": "public.t"}`,
		`q/3 {"op": "update", "old": null, "row": {"n": 31, "v": "b", "id": 3}, "table": "public.t"}`,
		`q/4 {"op": "update", "old": null, "row": {"n": 41, "v": "b", "id": 4}, "table": "public.t"}`,
	}, p.sent())
	p.exec(`UPDATE t SET v = 'a', n = CASE id WHEN 3 THEN n ELSE 0 END`)
	require.Equal(t, []string{
		`q/1 {"op": "update", "old": {"n": 11, "v": "b"}, "row": {"n": 0, "v": "a", "id": 1}, "table": "public.t"}`,
		`q/3 {"op": "update", "old": {"v": "b"}, "row": {"n": 31, "v": "a", "id": 3}, "table": "public.t"}`,
		`q/4 {"op": "update", "old": {"n": 41, "v": "b"}, "row": {"n": 0, "v": "a", "id": 4}, "table": "public.t"}`,
	}, p.sent(), "the next statement is not affected")
	p.exec(`INSERT INTO t VALUES (5, 'a', 1); DELETE FROM t WHERE id <> 5`)
	p.sent()
	p.exec(`UPDATE t SET v = 'b'`)
	require.Empty(t, p.sent(), "the row was removed")
	require.Zero(t, p.list()[0].Failures)
}

func TestMessagesWithoutOldRowsAreNotAffectedByARemovedRow(t *testing.T) {
	p := newFixture(t)
	createSwallowingTable(p)
	p.attach(attach.Request{Table: "t", Queue: "q", Columns: []string{"id"}})
	p.exec(`UPDATE t SET v = 'b'`)
	require.Equal(t, []string{
		`q/Default {"op": "update", "row": {"id": 1}, "table": "public.t"}`,
		`q/Default {"op": "update", "row": {"id": 3}, "table": "public.t"}`,
		`q/Default {"op": "update", "row": {"id": 4}, "table": "public.t"}`,
	}, p.sent())
}

// A condition that depends on an unknown old row counts as true, so no message is lost.
func TestAConditionOverAnUnknownOldRowCountsAsTrue(t *testing.T) {
	p := newFixture(t)
	createSwallowingTable(p)
	p.attach(attach.Request{Table: "t", Queue: "q", Columns: []string{"id"}, Condition: "new.id <> 4 AND old.n < 15 -- the first"})
	p.exec(`UPDATE t SET v = 'b'`)
	require.Equal(t, []string{
		`q/Default {"op": "update", "row": {"id": 1}, "table": "public.t"}`,
		`q/Default {"op": "update", "row": {"id": 3}, "table": "public.t"}`,
	}, p.sent())
	p.exec(`UPDATE t SET n = 0`)
	require.Equal(t, []string{`q/Default {"op": "update", "row": {"id": 1}, "table": "public.t"}`}, p.sent(), "the condition uses a known old row")
}

// leftovers counts the triggers and functions of attachments, including the triggers that
// partitions inherit.
func (p *fixture) leftovers() (triggers, functions int) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'belfry!_%' ESCAPE '!'
		AND tgrelid NOT IN (SELECT oid FROM pg_class WHERE relnamespace = 'belfry'::regnamespace)),
		(SELECT count(*) FROM pg_proc WHERE proname LIKE 'belfry!_%' ESCAPE '!')`).Scan(&triggers, &functions))
	return triggers, functions
}

func TestPartitionsOfAnAttachedTableCanBeAttachedToo(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int, a text) PARTITION BY LIST (id); CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
		CREATE TABLE t_x PARTITION OF t DEFAULT PARTITION BY LIST (id); CREATE TABLE t_1 PARTITION OF t_x FOR VALUES IN (1)`)
	request := attach.Request{Queue: "q", Columns: []string{"id"}}
	message := func(table string, id string) string {
		return `q/Default {"op": "insert", "row": {"id": ` + id + `}, "table": "public.` + table + `"}`
	}
	for range 2 {
		for _, request.Table = range []string{"t", "t_x", "t_0", "t_1"} {
			p.attach(request)
		}
	}
	p.exec(`CREATE TABLE t_2 (a text, id int); ALTER TABLE t_x ATTACH PARTITION t_2 FOR VALUES IN (2)`)
	for _, a := range p.list() {
		require.EqualValues(t, 3, a.Triggers, a.Table)
	}
	p.exec(`INSERT INTO t VALUES (0), (2); INSERT INTO t_x VALUES (1); INSERT INTO t_0 VALUES (0); INSERT INTO t_1 VALUES (1)`)
	require.Equal(t, []string{message("t", "0"), message("t", "2"), message("t_x", "1"), message("t_0", "0"), message("t_1", "1")}, p.sent())

	for i, table := range []string{"t", "t_0", "t_1"} {
		queues, err := p.Detach(t.Context(), table, []string{"", "q"}[i%2])
		require.NoError(t, err)
		require.Equal(t, []string{"q"}, queues)
	}
	p.exec(`INSERT INTO t VALUES (0), (2); INSERT INTO t_x VALUES (1)`)
	require.Equal(t, []string{message("t_x", "1")}, p.sent())
	_, err := p.Detach(t.Context(), "t_x", "")
	require.NoError(t, err)
	triggers, functions := p.leftovers()
	require.Zero(t, triggers)
	require.Zero(t, functions)
}

// List counts one trigger less for a partitioned table without its row-level trigger.
func TestAMissingRowTriggerIsListed(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int) PARTITION BY LIST (id)`)
	p.attach(attach.Request{Table: "t", Queue: "q", Events: []string{"delete"}})
	triggers, _ := p.leftovers()
	require.Equal(t, 1, triggers, "deletes need no row-level trigger")
	require.EqualValues(t, 1, p.list()[0].Triggers)
	p.attach(attach.Request{Table: "t", Queue: "q", Events: []string{"update"}})
	require.EqualValues(t, 1, p.list()[0].Triggers)
	p.exec(`DO $$ BEGIN EXECUTE (SELECT format('DROP TRIGGER %I ON t', tgname) FROM pg_trigger WHERE tgrelid = 't'::regclass AND tgname LIKE '%rows%'); END $$`)
	require.Zero(t, p.list()[0].Triggers)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	require.EqualValues(t, 3, p.list()[0].Triggers)

	p.exec(`ALTER TABLE t DISABLE TRIGGER ALL`)
	require.Zero(t, p.list()[0].Triggers)
	p.exec(`ALTER TABLE t ENABLE TRIGGER ALL; ALTER TRIGGER ` + p.trigger("rows") + ` ON t RENAME TO renamed`)
	_, err := p.Detach(t.Context(), "t", "")
	require.NoError(t, err)
	triggers, functions := p.leftovers()
	require.Zero(t, triggers)
	require.Zero(t, functions)
}

// trigger returns the name of the trigger of table t that contains kind.
func (p *fixture) trigger(kind string) (name string) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT quote_ident(tgname) FROM pg_trigger
		WHERE tgrelid = 't'::regclass AND tgname LIKE '%!_' || $1 || '%' ESCAPE '!'`, kind).Scan(&name))
	return name
}

// The owner of a partitioned table can create partitions, even if another role attached the table.
// List counts a row-level trigger as missing if the owner may not execute its function.
func TestANewOwnerCreatesPartitions(t *testing.T) {
	p := newFixture(t)
	was, is := p.role("was"), p.role("is")
	p.exec(`CREATE TABLE t (id int) PARTITION BY LIST (id); GRANT belfry_producer TO ` + was + `, ` + is + `; GRANT CREATE ON SCHEMA public TO ` + was + `, ` + is)
	p.exec(`ALTER TABLE t OWNER TO ` + was)
	p.as(was, func() {
		p.exec(`ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`)
		p.exec(`SELECT belfry.attach('t', 'q')`)
	})
	p.exec(`ALTER TABLE t OWNER TO ` + is)
	require.EqualValues(t, 3, p.list()[0].Triggers)
	p.as(is, func() { p.exec(`CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0); INSERT INTO t VALUES (0)`) })
	require.Len(t, p.sent(), 1)

	p.exec(fmt.Sprintf(`DO $$ BEGIN EXECUTE (SELECT format('DROP TRIGGER %[1]s ON t; CREATE TRIGGER %[1]s BEFORE INSERT ON t FOR EACH ROW WHEN (false)
		EXECUTE FUNCTION %%s()', tgfoid::regproc) FROM pg_trigger WHERE tgrelid = 't'::regclass AND tgname LIKE '%%insert'); END $$`, p.trigger("rows")))
	p.as(is, func() {
		require.Contains(t, p.refused(`CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)`).Message, "permission denied")
	})
	require.EqualValues(t, 2, p.list()[0].Triggers)
	p.as(is, func() {
		p.exec(`SELECT belfry.attach('t', 'q'); CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1); SELECT belfry.detach('t')`)
	})
	triggers, _ := p.leftovers() // the functions belong to the former owner and stay
	require.Zero(t, triggers)
}

// The meaning of a backslash does not depend on settings of the session.
func TestBackslashesAreLiteral(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (a text); CREATE TABLE u (a text); SET standard_conforming_strings = off; SET escape_string_warning = off`)
	for range 2 {
		p.exec(`SELECT belfry.attach('t', E'q\\', condition => E'new.a ~ ''^\\d$''')`)
		p.exec(`SELECT belfry.attach('u', E'u\\')`)
	}
	require.Contains(t, p.refused(`SELECT belfry.attach('t', 'q', condition => E'new.a = ''it\\''s''')`).Message, "cannot be used")
	for _, setting := range []string{"off", "on"} {
		p.exec(`SET standard_conforming_strings = ` + setting)
		p.exec(`INSERT INTO t VALUES ('d'), ('7')`)
		require.Equal(t, []string{`q\/Default {"op": "insert", "row": {"a": "7"}, "table": "public.t"}`}, p.sent(), setting)
	}
	p.exec(`SET standard_conforming_strings = off`)
	p.exec(`SELECT belfry.detach('t', E'q\\'); DELETE FROM belfry.attachment; SELECT belfry.detach('u')`)
	triggers, functions := p.leftovers()
	require.Zero(t, triggers)
	require.Zero(t, functions)
}

func TestAPartitionOfAnotherOwnerIsNamed(t *testing.T) {
	p := newFixture(t)
	owner := p.role("owner")
	p.exec(`CREATE TABLE t (id int) PARTITION BY LIST (id); CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
		ALTER TABLE t OWNER TO ` + owner + `; GRANT belfry_producer TO ` + owner + `; GRANT CREATE ON SCHEMA public TO ` + owner)
	p.as(owner, func() {
		got := p.refused(`SELECT belfry.attach('t', 'q')`)
		require.Contains(t, got.Message, "a partition of public.t")
		require.Equal(t, "GRANT TRIGGER ON public.t_0 TO "+strings.Trim(owner, `"`)+";", got.Hint)
		p.exec(`SELECT belfry.attach('t', 'q', events => '{delete}')`)
	})
	p.exec(`GRANT TRIGGER ON t_0 TO ` + owner)
	p.as(owner, func() { p.exec(`SELECT belfry.attach('t', 'q'); INSERT INTO t VALUES (0)`) })
	require.Len(t, p.sent(), 1)
}

// For Postgres, a MERGE that moves a row to another partition deletes and inserts the row. Postgres
// fires only the triggers of the actions that the MERGE contains. So the messages depend on these
// actions.
func TestAMergeThatMovesRows(t *testing.T) {
	p := newFixture(t)
	if p.version() < 150000 {
		return // no MERGE
	}
	p.exec(`CREATE TABLE t (id int, grp int) PARTITION BY LIST (grp); CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
		CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	message := func(op, grp string) string {
		return `q/Default {"op": "` + op + `", "row": {"id": 1, "grp": ` + grp + `}, "table": "public.t"}`
	}
	for actions, want := range map[string][]string{
		``:                                    {},
		` WHEN MATCHED AND false THEN DELETE`: {message("delete", "0")},
		` WHEN NOT MATCHED AND false THEN INSERT DEFAULT VALUES`:                                    {message("insert", "1")},
		` WHEN MATCHED AND false THEN DELETE WHEN NOT MATCHED AND false THEN INSERT DEFAULT VALUES`: {message("delete", "0"), message("insert", "1")},
	} {
		p.exec(`TRUNCATE t; INSERT INTO t VALUES (1, 0)`)
		p.sent()
		p.exec(`MERGE INTO t USING (VALUES (1)) AS s(id) ON t.id = s.id WHEN MATCHED AND t.grp = 0 THEN UPDATE SET grp = 1` + actions)
		require.Equal(t, want, p.sent(), actions)
	}
}
