package attach_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

// A failing inbox does not fail the statement of the writer.
func TestAMessageThatCannotBeWrittenFailsNoStatement(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int); ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue NOT LIKE 'bad%')`)
	p.attach(attach.Request{Table: "t", Queue: "bad"})
	p.attach(attach.Request{Table: "t", Queue: "good"})
	p.exec(`INSERT INTO t VALUES (1), (2)`)
	p.exec(`UPDATE t SET id = id + 1`)
	require.Len(t, p.sent(), 4, "the messages of the other attachment")
	var rows int
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT count(*) FROM t`).Scan(&rows))
	require.Equal(t, 2, rows)
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

// Neither does a missing schema of Belfry.
func TestADroppedSchemaFailsNoStatement(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int)`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	p.exec(`DROP SCHEMA belfry CASCADE`)
	p.exec(`INSERT INTO t VALUES (1); UPDATE t SET id = 2; DELETE FROM t`)
}

func TestRefusedRequestsAreExplained(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int, "Total $" int); CREATE VIEW v AS SELECT id FROM t; CREATE TEMP TABLE tmp (id int)`)
	for what, c := range map[string]struct {
		request attach.Request
		want    []string
	}{
		"a table that is not there":   {attach.Request{Table: "nowhere"}, []string{`"nowhere" does not exist`}},
		"a view":                      {attach.Request{Table: "v"}, []string{"is not a table", "tables that a view"}},
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
	t.Parallel()
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

	// If the owner is no longer a producer, the writer can still write.
	p.exec(`REVOKE belfry_producer FROM ` + owner)
	p.as(writer, func() { p.exec(`INSERT INTO app.t VALUES (2)`) })
	require.Empty(t, p.sent())
	p.exec(`GRANT belfry_producer TO ` + owner + `, ` + writer)

	// Another role can neither use the function for its own trigger nor delete the record.
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
