package attach_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

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
	t.Parallel()
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

// A partitioned table without its row-level trigger lists one trigger less.
func TestAMissingRowTriggerIsListed(t *testing.T) {
	t.Parallel()
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

// The owner of a partitioned table can create partitions, also when another role attached
// it. A row-level trigger whose function the owner may not execute is listed as missing.
func TestANewOwnerCreatesPartitions(t *testing.T) {
	t.Parallel()
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

// The meaning of a backslash does not depend on the session.
func TestBackslashesAreLiteral(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// The messages of rows that a MERGE moves to another partition depend on its actions.
// Postgres fires only the triggers of these actions. It shows a moved row to the insert
// and delete triggers.
func TestAMergeThatMovesRows(t *testing.T) {
	t.Parallel()
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
