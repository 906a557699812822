package attach_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

// createSwallowingTable creates a table in which rows 2 and 5 vanish when they move to partition b.
func createSwallowingTable(p *fixture) {
	p.t.Helper()
	p.exec(`CREATE TABLE t (id int, v text, n int) PARTITION BY LIST (v);
		CREATE TABLE t_a PARTITION OF t FOR VALUES IN ('a'); CREATE TABLE t_b PARTITION OF t FOR VALUES IN ('b');
		CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER swallow BEFORE INSERT ON t_b FOR EACH ROW WHEN (new.id IN (2, 5)) EXECUTE FUNCTION swallow();
		INSERT INTO t VALUES (1, 'a', 10), (2, 'a', 20), (3, 'a', 30), (4, 'a', 40)`)
}

// If a trigger removes a row on its way, the old values of the other rows are unknown. No
// message has wrong old values.
func TestARemovedRowShiftsNoOtherRow(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	p := newFixture(t)
	createSwallowingTable(p)
	p.attach(attach.Request{Table: "t", Queue: "q", Columns: []string{"id"}, Condition: "new.id <> 4 AND old.n < 15 -- the first"})
	p.exec(`UPDATE t SET v = 'b'`)
	require.Equal(t, []string{
		`q/Default {"op": "update", "row": {"id": 1}, "table": "public.t"}`,
		`q/Default {"op": "update", "row": {"id": 3}, "table": "public.t"}`,
	}, p.sent())
	p.exec(`UPDATE t SET n = 0`)
	require.Equal(t, []string{`q/Default {"op": "update", "row": {"id": 1}, "table": "public.t"}`}, p.sent(), "a known old row decides")
}
