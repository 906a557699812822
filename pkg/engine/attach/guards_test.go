package attach_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

// A producer can write any name into belfry.attachment. A role that attaches the tables
// again from these records executes nothing from a name.
func TestTheNameOfAQueueRunsNothing(t *testing.T) {
	t.Parallel()
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

// A superuser may attach a table again with a condition that another role wrote. Attaching
// evaluates nothing of it.
func TestAttachingEvaluatesNoCondition(t *testing.T) {
	t.Parallel()
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
	var ran bool
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT is_called FROM ran`).Scan(&ran))
	require.False(t, ran)
	p.exec(`INSERT INTO t VALUES (1)`)
	require.Len(t, p.sent(), 1)
}

// Every role may execute the function of the row-level triggers, so a trigger of another
// role can use it.
func TestATriggerOfAnotherRoleDoesNotPreventDetach(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, 1, functions, "the function stays: a trigger of the other role uses it, and it does nothing")
	require.Zero(t, triggers)
}

// The owner of a partition that is partitioned itself creates partitions too.
func TestATableWhosePartitionsHaveAnotherOwnerIsListed(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
