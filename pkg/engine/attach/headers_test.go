package attach_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// The messages of an attached table have a fixed object as headers, or what an expression returns for each row.
func TestAttachedTablesHaveHeaders(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int, tenant text)`)
	p.attach(attach.Request{Table: "t", Queue: "fixed", Headers: `{"Kind": "it''s \"new\""}`})
	p.attach(attach.Request{Table: "t", Queue: "made", Headers: `json_build_object('tenant', coalesce(new.tenant, old.tenant), 'before', coalesce(old.tenant, 'none'))`})
	p.exec(`INSERT INTO t VALUES (1, 'a')`)
	p.exec(`UPDATE t SET tenant = 'b'`)
	p.exec(`DELETE FROM t`)
	got := func(queue string) string {
		return enginetest.Value[string](t, p.conn, `SELECT json_agg(i.headers ORDER BY i.id)::text FROM belfry.inbox i WHERE i.queue = $1`, queue)
	}
	require.JSONEq(t, `[{"kind":"it''s \"new\""},{"kind":"it''s \"new\""},{"kind":"it''s \"new\""}]`, got("fixed"))
	require.JSONEq(t, `[{"tenant":"a","before":"none"},{"tenant":"b","before":"a"},{"tenant":"b","before":"b"}]`, got("made"))
	for _, a := range p.list() {
		require.Zero(t, a.Failures, a.LastFailure)
		require.NotEmpty(t, a.Headers)
	}
	for headers, want := range map[string]string{
		`{"a b": "1"}`: "the header 'a b' cannot be stored", `{"a": 1}`: "the header 'a' cannot be stored", `{a}`: "are not JSON", `new.none`: "cannot be used",
		`count(*)`: "cannot be used", `'{}'::json) AS x, (SELECT 1`: "cannot be used", `'{}'::json; DROP TABLE t`: "cannot be used", `1`: "cannot be used",
	} {
		_, err := p.conn.Exec(t.Context(), `SELECT belfry.attach('t', 'q', headers => $1)`, headers)
		require.ErrorContains(t, err, want, headers)
	}
	p.exec(`SELECT belfry.attach('t', 'wrong', headers => 'json_build_object(''n'', new.id)')`)
	p.exec(`INSERT INTO t VALUES (2, 'c')`)
	for _, a := range p.list() {
		require.EqualValues(t, map[bool]int{true: 1}[a.Queue == "wrong"], a.Failures, "headers that cannot be stored are a failure of the attachment")
	}
}
