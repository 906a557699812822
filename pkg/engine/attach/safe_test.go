package attach_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A cached plan for one row would need n * n steps to join n rows.
func TestALargeUpdateAfterManySmallOnesIsFast(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) AS g`)
	p.attach(attach.Request{Table: "t", Queue: "q", Payload: attach.PayloadChanges})
	for range 10 {
		p.exec(`UPDATE t SET n = n + 1 WHERE id = 1`)
	}
	require.Len(t, p.sent(), 10)
	// The statement takes a quarter of a second. With the cached plan it would take minutes.
	p.exec(`SET statement_timeout = '20s'`)
	p.exec(`UPDATE t SET n = n + 1`)
	require.Len(t, p.sent(), 20000)
}

// The functions of the triggers have the rights of the table's owner. Another role cannot
// take over these rights by creating functions with matching names in the same schema.
func TestOtherRolesInTheSchemaDoNotGetTheOwnersRights(t *testing.T) {
	p := newFixture(t)
	owner, other := p.role("owner"), p.role("other")
	p.exec(`CREATE SCHEMA app; GRANT USAGE, CREATE ON SCHEMA app TO ` + other + `, ` + owner + `; GRANT belfry_producer TO ` + owner + `;
		CREATE TABLE app.t (id int, v text); ALTER TABLE app.t OWNER TO ` + owner + `; GRANT ALL ON app.t TO ` + other)
	p.as(owner, func() {
		p.exec(`SELECT belfry.attach('app.t', 'q', key => '{id,v}', payload => 'changes');
			SELECT belfry.attach('app.t', 'columns', columns => '{id}')`)
	})
	p.as(other, func() {
		p.exec(`CREATE TABLE app.seen (who text); GRANT INSERT ON app.seen TO PUBLIC`)
		for _, function := range []string{
			`quote_ident(name) RETURNS text`, `to_json(record) RETURNS json`, `to_jsonb(record) RETURNS jsonb`,
			`partition_of(text, text) RETURNS text`, `row_number(int) RETURNS bigint`, `jsonb_each(json) RETURNS jsonb`,
			`json_build_object(text, text, text, text, text, json) RETURNS json`,
			`json_build_object(text, text, text, text, text, json, text, json) RETURNS json`,
		} {
			p.exec(`CREATE FUNCTION app.` + function + ` LANGUAGE plpgsql AS $$ BEGIN INSERT INTO app.seen VALUES (current_user); RETURN NULL; END $$`)
		}
		p.exec(`INSERT INTO app.t VALUES (1, 'a'); UPDATE app.t SET v = 'b'; DELETE FROM app.t`)
	})
	require.Len(t, p.sent(), 6)
	require.Empty(t, enginetest.Value[[]string](t, p.conn, `SELECT coalesce(array_agg(who), '{}') FROM app.seen`))
}

// A failed assertion in a condition is recorded and does not fail the statement. (EXCEPTION WHEN
// OTHERS does not catch failed assertions.)
func TestAFailedAssertionInAConditionFailsNoStatement(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int);
		CREATE FUNCTION positive(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN ASSERT $1 > 0; RETURN true; END $$`)
	p.attach(attach.Request{Table: "t", Queue: "q", Condition: "positive(new.id)"})
	p.exec(`INSERT INTO t VALUES (1)`)
	require.Len(t, p.sent(), 1)
	p.exec(`INSERT INTO t VALUES (-1)`)
	require.EqualValues(t, 1, p.list()[0].Failures)
}

// Rows of a transition table have no system columns.
func TestAConditionOverSystemColumnsIsRefused(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int)`)
	err := p.Attach(t.Context(), &attach.Request{Table: "t", Queue: "q", Condition: "new.tableoid IS NOT NULL"})
	require.ErrorContains(t, err, "tableoid")
	p.attach(attach.Request{Table: "t", Queue: "q", Condition: "new IS DISTINCT FROM old"})
	p.exec(`INSERT INTO t VALUES (1); UPDATE t SET id = 1; UPDATE t SET id = 2; DELETE FROM t`)
	require.Len(t, p.sent(), 3)
}

// The new owner of a table can detach it and attach it again.
func TestATablesNewOwnerDetachesAndAttaches(t *testing.T) {
	p := newFixture(t)
	first, second := p.role("first"), p.role("second")
	p.exec(`CREATE SCHEMA app; GRANT USAGE, CREATE ON SCHEMA app TO ` + first + `, ` + second + `; GRANT belfry_producer TO ` + first + `, ` + second + `;
		CREATE TABLE app.t (id int); ALTER TABLE app.t OWNER TO ` + first)
	for _, owner := range []string{first, second, first} {
		p.exec(`ALTER TABLE app.t OWNER TO ` + owner)
		p.as(owner, func() {
			p.exec(`SELECT belfry.attach('app.t', 'q'); SELECT belfry.attach('app.t', 'q'); INSERT INTO app.t VALUES (1)`)
		})
		require.Len(t, p.sent(), 1)
	}
	p.exec(`ALTER TABLE app.t OWNER TO ` + second)
	p.as(second, func() { p.exec(`SELECT belfry.detach('app.t'); INSERT INTO app.t VALUES (2)`) })
	require.Empty(t, p.sent())
	require.Empty(t, p.list())
}

// A superuser may detach a trigger that another role has created with the name of a Belfry trigger.
func TestDetachDropsNoFunctionOfAnotherRole(t *testing.T) {
	p := newFixture(t)
	owner := p.role("owner")
	p.exec(`CREATE FUNCTION belfry_of_others() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN NULL; END $$;
		CREATE TABLE t (id int); ALTER TABLE t OWNER TO ` + owner)
	p.as(owner, func() {
		p.exec(`DO $$ BEGIN EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON t EXECUTE FUNCTION belfry_of_others()',
			'belfry_' || left(md5('q'), 12) || '_insert'); END $$`)
	})
	for _, statement := range []string{`SELECT belfry.detach('t', 'q')`, `SELECT 'belfry_of_others()'::regprocedure`} {
		p.exec(statement)
	}
}

// The row policies that protect attachments of other roles use no operator from the search_path of
// the caller.
func TestTheSearchPathOfAProducerRemovesNoForeignAttachment(t *testing.T) {
	p := newFixture(t)
	other := p.role("other")
	p.exec(`CREATE TABLE t (id int); CREATE SCHEMA trick AUTHORIZATION ` + other + `; GRANT belfry_producer TO ` + other)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	p.as(other, func() {
		p.exec(`CREATE FUNCTION trick.never(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
			CREATE OPERATOR trick.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = trick.never);
			SET search_path = trick, pg_catalog; UPDATE belfry.attachment SET events = '{}'; RESET search_path`)
	})
	require.Len(t, p.list(), 1)
}

// A producer can write any name into belfry.attachment. A role that attaches the tables
// again from these records executes nothing from a name.
func TestTheNameOfAQueueRunsNothing(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int) PARTITION BY LIST (id); CREATE TABLE t_1 PARTITION OF t DEFAULT`)
	for _, name := range []string{"a$belfry$b", "a$belfry$ SET check_function_bodies = off; CREATE TABLE public.made (); SELECT $belfry$"} {
		p.attach(attach.Request{Table: "t", Queue: name})
		p.exec(`INSERT INTO t VALUES (1)`)
		require.Equal(t, []string{name + `/Default {"op": "insert", "row": {"id": 1}, "table": "public.t"}`}, p.sent())
		queues, err := p.Detach(t.Context(), "t", "")
		require.NoError(t, err)
		require.Equal(t, []string{name}, queues)
	}
	require.Equal(t, "42P01", p.refused(`TABLE public.made`).Code)
	triggers, functions := p.leftovers()
	require.Zero(t, triggers)
	require.Zero(t, functions)
}

// A superuser may attach a table again with a condition that another role wrote. Attaching never
// evaluates the condition.
func TestAttachingEvaluatesNoCondition(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE SEQUENCE ran; CREATE TABLE t (id int);
		CREATE FUNCTION lim() RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('public.ran') * 0; END $$;
		CREATE FUNCTION now_and_then() RETURNS bigint STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('public.ran') * 0; END $$`)
	for _, condition := range []string{
		"new.id > lim()", "new.id > now_and_then()", "lim() = 0", "EXISTS (SELECT 1 FROM generate_series(lim(), 1))",
	} {
		request := attach.Request{Table: "t", Queue: "q", Condition: condition}
		_, err := p.SQL(t.Context(), &request)
		require.NoError(t, err)
		p.attach(request)
	}
	// Both checks of a condition refuse a text that ends the expression early.
	for _, condition := range []string{"true) OR lim() = 0 OR (true", "true THEN true END OR lim() = 0 OR CASE WHEN true"} {
		require.Equal(t, "42601", p.refused(`SELECT belfry.attach('t', 'q', condition => '`+condition+`')`).Code)
	}
	require.False(t, enginetest.Value[bool](t, p.conn, `SELECT is_called FROM ran`))
	p.exec(`INSERT INTO t VALUES (1)`)
	require.Len(t, p.sent(), 1)
}

// Every role may execute the function of the row-level triggers, so a trigger of another
// role can use it.
func TestATriggerOfAnotherRoleDoesNotPreventDetach(t *testing.T) {
	p := newFixture(t)
	other := p.role("other")
	p.exec(`CREATE TABLE t (id int) PARTITION BY LIST (id); CREATE TABLE t_1 PARTITION OF t DEFAULT; CREATE TABLE theirs (id int);
		ALTER TABLE theirs OWNER TO ` + other + `; SELECT belfry.attach('t', 'q')`)
	p.as(other, func() {
		p.exec(`CREATE TRIGGER x BEFORE INSERT ON theirs FOR EACH ROW EXECUTE FUNCTION ` + p.rowsFunction())
	})
	p.exec(`SELECT belfry.attach('t', 'q'); SELECT belfry.attach('t', 'q', '{delete}'); SELECT belfry.attach('t', 'q')`)
	p.exec(`INSERT INTO t VALUES (1)`)
	require.Len(t, p.sent(), 1)
	p.exec(`SELECT belfry.detach('t'); INSERT INTO t VALUES (2); INSERT INTO theirs VALUES (3)`)
	require.Empty(t, p.sent())
	triggers, functions := p.leftovers()
	require.Equal(t, 1, functions, "the function, which does nothing, stays because a trigger of the other role uses it")
	require.Zero(t, triggers)
}

// If a partition is partitioned itself, its owner can create partitions too.
func TestATableWhosePartitionsHaveAnotherOwnerIsListed(t *testing.T) {
	p := newFixture(t)
	between := p.role("between")
	p.exec(`CREATE TABLE t (id int, k int) PARTITION BY LIST (id); CREATE TABLE t_0 PARTITION OF t DEFAULT PARTITION BY LIST (k);
		ALTER TABLE t_0 OWNER TO ` + between + `; GRANT CREATE ON SCHEMA public TO ` + between + `; SELECT belfry.attach('t', 'q')`)
	require.EqualValues(t, 3, p.list()[0].Triggers)
	p.as(between, func() { p.exec(`CREATE TABLE t_1 PARTITION OF t_0 FOR VALUES IN (1)`) })
	p.exec(`REVOKE ALL ON FUNCTION ` + p.rowsFunction() + ` FROM PUBLIC`)
	require.EqualValues(t, 2, p.list()[0].Triggers)
	p.as(between, func() {
		require.Equal(t, "42501", p.refused(`CREATE TABLE t_2 PARTITION OF t_0 FOR VALUES IN (2)`).Code)
	})
	p.exec(`SELECT belfry.attach('t', 'q')`)
	require.EqualValues(t, 3, p.list()[0].Triggers)
	p.as(between, func() { p.exec(`CREATE TABLE t_2 PARTITION OF t_0 FOR VALUES IN (2)`) })
}

// From Postgres 16 on, a role can inherit the rights of the owner without SET. Attaching
// needs SET to give the functions to the owner. The hint names the missing grant.
func TestAMissingSetGrantIsNamed(t *testing.T) {
	p := newFixture(t)
	if p.version() < 160000 {
		return // every member can use SET ROLE
	}
	owner, heir := p.role("owner"), p.role("heir")
	p.exec(`GRANT belfry_producer TO ` + owner + `; GRANT CREATE ON SCHEMA public TO ` + owner + `; GRANT ` + owner + ` TO ` + heir + ` WITH INHERIT TRUE, SET FALSE;
		CREATE TABLE t (id int); ALTER TABLE t OWNER TO ` + owner)
	p.as(heir, func() { require.Contains(t, p.refused(`SELECT belfry.attach('t', 'q')`).Hint, "GRANT") })
	p.exec(`GRANT ` + owner + ` TO ` + heir + ` WITH SET TRUE`)
	p.as(heir, func() { p.exec(`SELECT belfry.attach('t', 'q')`) })
}

// rowsFunction returns the function of the row-level triggers.
func (p *fixture) rowsFunction() (function string) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT oid::regprocedure::text FROM pg_proc
		WHERE proname LIKE 'belfry\_%\_rows' AND pronamespace = 'public'::regnamespace`).Scan(&function))
	return function
}

// A failing inbox does not fail the statement of the writer.
func TestAMessageThatCannotBeWrittenFailsNoStatement(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int); ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue NOT LIKE 'bad%')`)
	p.attach(attach.Request{Table: "t", Queue: "bad"})
	p.attach(attach.Request{Table: "t", Queue: "good"})
	p.exec(`INSERT INTO t VALUES (1), (2)`)
	p.exec(`UPDATE t SET id = id + 1`)
	require.Len(t, p.sent(), 4, "the messages of the other attachment")
	require.Equal(t, 2, enginetest.Value[int](t, p.conn, `SELECT count(*) FROM t`))
	list := p.list()
	require.Positive(t, list[0].Failures)
	require.Contains(t, list[0].LastFailure, "broken")
	require.Zero(t, list[1].Failures)

	p.attach(attach.Request{Table: "t", Queue: "bad", Strict: true})
	require.Contains(t, p.refused(`INSERT INTO t VALUES (3)`).Message, "broken")
	_, err := p.Detach(t.Context(), "t", "bad")
	require.NoError(t, err)
	p.exec(`INSERT INTO t VALUES (3)`)
}

// A missing schema of Belfry does not fail the statement of the writer.
func TestADroppedSchemaFailsNoStatement(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int)`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	p.exec(`DROP SCHEMA belfry CASCADE`)
	p.exec(`INSERT INTO t VALUES (1); UPDATE t SET id = 2; DELETE FROM t`)
}

func TestRefusedRequestsAreExplained(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int, "Total $" int); CREATE VIEW v AS SELECT id FROM t; CREATE TEMP TABLE tmp (id int)`)
	for what, c := range map[string]struct {
		request attach.Request
		want    []string
	}{
		"a table that is not there":   {attach.Request{Table: "nowhere"}, []string{`"nowhere" does not exist`}},
		"a view":                      {attach.Request{Table: "v"}, []string{"is not a table", "tables that the view"}},
		"a table of Belfry":           {attach.Request{Table: "belfry.inbox"}, []string{"cannot be attached"}},
		"no queue":                    {attach.Request{Table: "t", Queue: "-"}, []string{"1 to 255 bytes"}},
		"a long queue":                {attach.Request{Table: "t", Queue: strings.Repeat("ä", 128)}, []string{"1 to 255 bytes"}},
		"an event":                    {attach.Request{Table: "t", Events: []string{"insert", "truncate"}}, []string{"not known", "TRUNCATE"}},
		"a payload":                   {attach.Request{Table: "t", Payload: "diff"}, []string{"'diff'", "'changes'"}},
		"a key":                       {attach.Request{Table: "t", Key: []string{`"Total $"`}}, []string{"has no column", `id, "Total $"`, "without quotes"}},
		"a column":                    {attach.Request{Table: "t", Columns: []string{"id", "ID"}}, []string{"has no column 'ID'"}},
		"a condition without a side":  {attach.Request{Table: "t", Condition: "id > 1"}, []string{"ambiguous", "old and new"}},
		"a condition with a mistake":  {attach.Request{Table: "t", Condition: "new.id >"}, []string{"syntax error", "boolean expression"}},
		"a condition of another type": {attach.Request{Table: "t", Condition: "new.id"}, []string{"must be type boolean"}},
	} {
		switch c.request.Queue {
		case "":
			c.request.Queue = "q"
		case "-":
			c.request.Queue = ""
		}
		err := p.Attach(t.Context(), &c.request)
		for _, want := range c.want {
			require.ErrorContains(t, err, want, what)
		}
		_, err = p.SQL(t.Context(), &c.request)
		require.Error(t, err, what)
	}
	require.Empty(t, p.list())
	_, err := p.Detach(t.Context(), "nowhere", "")
	require.ErrorContains(t, err, "does not exist")
}

// The triggers have the rights of the table's owner. Writers need no rights on Belfry.
func TestTriggersHaveTheRightsOfTheOwner(t *testing.T) {
	p := newFixture(t)
	owner, writer := p.role("owner"), p.role("writer")
	p.exec(`CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO ` + writer + `, ` + owner + `;
		CREATE TABLE app.t (id int); ALTER TABLE app.t OWNER TO ` + owner + `;
		CREATE TABLE app.mine (id int); GRANT ALL ON app.t, app.mine TO ` + writer)
	const attach = `SELECT belfry.attach('app.t', 'q')`

	p.as(owner, func() {
		require.Equal(t, "42501", p.refused(attach).Code, "the owner has no right to the schema of Belfry")
	})
	require.Contains(t, p.refused(attach).Hint, "GRANT belfry_producer TO "+strings.ReplaceAll(owner, `"`, ""), "the superuser may attach, but the owner is not a producer")
	p.exec(`GRANT belfry_producer TO ` + owner + `, ` + writer)
	p.as(owner, func() { require.Contains(t, p.refused(attach).Hint, "GRANT CREATE ON SCHEMA app TO") })
	p.exec(`GRANT CREATE ON SCHEMA app TO ` + owner)
	p.as(writer, func() {
		refused := p.refused(attach)
		require.Contains(t, refused.Message, "it belongs to")
		require.Contains(t, refused.Hint, "Run this as")
	})
	p.as(owner, func() { p.exec(attach) })
	p.exec(`REVOKE belfry_producer FROM ` + writer)
	p.as(writer, func() { p.exec(`INSERT INTO app.t VALUES (1)`) })
	require.Len(t, p.sent(), 1)
	require.Equal(t, owner, `"`+p.list()[0].AttachedBy+`"`)

	// If the owner is not a producer any more, the writer can still write to the table.
	p.exec(`REVOKE belfry_producer FROM ` + owner)
	p.as(writer, func() { p.exec(`INSERT INTO app.t VALUES (2)`) })
	require.Empty(t, p.sent())
	p.exec(`GRANT belfry_producer TO ` + owner + `, ` + writer)

	// Another role cannot use the function for its own trigger, and cannot delete the record.
	var function string
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT function_oid::text FROM belfry.attachment_triggers('app.t', 'q') LIMIT 1`).Scan(&function))
	p.exec(`ALTER TABLE app.mine OWNER TO ` + writer)
	p.as(writer, func() {
		require.Equal(t, "42501", p.refused(`CREATE TRIGGER x AFTER DELETE ON app.mine FOR EACH STATEMENT EXECUTE FUNCTION `+function).Code)
		require.Equal(t, "42501", p.refused(`SELECT belfry.detach('app.t')`).Code)
		require.Equal(t, "42501", p.refused(`INSERT INTO belfry.attachment (target, queue, events, key, payload, strict)
			VALUES ('app.t', 'x', '{}', '{}', 'row', false)`).Code)
		p.exec(`UPDATE belfry.attachment SET events = '{}'`)
	})
	require.Len(t, p.list(), 1)
	p.as(owner, func() { p.exec(`SELECT belfry.detach('app.t')`) })
	require.Empty(t, p.list())
}
