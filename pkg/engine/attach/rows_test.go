package attach_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

// Columns after a dropped one keep their values, whether it was dropped before or after
// the table was attached.
func TestADroppedColumnShiftsNoOtherColumn(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// Only the condition is evaluated with the table's schema in the search path.
func TestTheKeyUsesOnlyFunctionsOfPostgres(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int, paid bool);
		CREATE FUNCTION array_to_string(text[], text) RETURNS text LANGUAGE sql AS $$ SELECT 'not this one' $$`)
	p.attach(attach.Request{Table: "t", Queue: "q", Key: []string{"id"}, Condition: "new.paid"})
	p.exec(`INSERT INTO t VALUES (1, true)`)
	require.Equal(t, []string{`q/1 {"op": "insert", "row": {"id": 1, "paid": true}, "table": "public.t"}`}, p.sent())
}

func TestAConditionIsOneExpression(t *testing.T) {
	t.Parallel()
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
	var made *string
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT to_regclass('made')::text`).Scan(&made))
	require.Nil(t, made, "printing runs nothing")
}

// Postgres has no transition rows for foreign tables and fails such statements.
func TestATableWithForeignPartitionsIsRefused(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
		CREATE TABLE t (id int) PARTITION BY RANGE (id);
		CREATE TABLE near PARTITION OF t FOR VALUES FROM (0) TO (10);
		CREATE TABLE middle PARTITION OF t FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
		CREATE FOREIGN TABLE far PARTITION OF middle FOR VALUES FROM (10) TO (15) SERVER nowhere`)
	err := p.Attach(t.Context(), &attach.Request{Table: "t", Queue: "q"})
	require.ErrorContains(t, err, "foreign tables below it")
	p.attach(attach.Request{Table: "near", Queue: "q"})
	p.exec(`DROP FOREIGN TABLE far`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
}

// The error names the missing right. A role without rights cannot run the functions, so
// the client adds the advice.
func TestErrorsNameTheMissingRight(t *testing.T) {
	t.Parallel()
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
