package attach_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

// A plan made for one row would join n rows in n * n steps.
func TestALargeUpdateAfterManySmallOnesIsFast(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) AS g`)
	p.attach(attach.Request{Table: "t", Queue: "q", Payload: attach.PayloadChanges})
	for range 10 {
		p.exec(`UPDATE t SET n = n + 1 WHERE id = 1`)
	}
	require.Len(t, p.sent(), 10)
	// It takes a quarter of a second, or minutes.
	p.exec(`SET statement_timeout = '20s'`)
	p.exec(`UPDATE t SET n = n + 1`)
	require.Len(t, p.sent(), 20000)
}

// The functions of the triggers have the rights of the table's owner. Another role cannot
// take over these rights by creating functions with matching names in the same schema.
func TestOtherRolesInTheSchemaDoNotGetTheOwnersRights(t *testing.T) {
	t.Parallel()
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
	var seen []string
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT coalesce(array_agg(who), '{}') FROM app.seen`).Scan(&seen))
	require.Empty(t, seen)
}

// A failed assertion in a condition (which OTHERS does not catch) is recorded and does not
// fail the statement.
func TestAFailedAssertionInAConditionFailsNoStatement(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// A superuser may detach a trigger that another role created and named.
func TestDetachDropsNoFunctionOfAnotherRole(t *testing.T) {
	t.Parallel()
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

// The row policies that protect the attachments of others use no operator of the caller.
func TestTheSearchPathOfAProducerRemovesNoForeignAttachment(t *testing.T) {
	t.Parallel()
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
