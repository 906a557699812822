package inbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func describe(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Sprintf("%s %s / %s", pg.Code, pg.Message, pg.Hint)
	}
	return err.Error()
}

func TestAnInsertIsAPush(t *testing.T) {
	r := newFixture(t)
	r.session().exec(`INSERT INTO belfry.inbox (queue, payload) VALUES ('orders', '{"a": 1}')`)
	r.runStep()
	require.Equal(t, []string{`orders Default {"a": 1}`}, r.texts(`SELECT q.name || ' ' || p.name || ' ' || m.payload::text
		FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id`))
	require.Zero(t, r.waiting())
	require.Equal(t, int64(1), enginetest.Metric(t, r.reg, "belfry_inbox_sequenced_total"))
}

func TestARunningSequencerMovesCommittedRows(t *testing.T) {
	r := newFixture(t)
	r.start(t, r.dsn)
	s := r.session()
	for _, id := range numbered("m", 5) {
		s.insert("a", id)
		enginetest.Await(t, "the row is sequenced", func() bool { return r.waiting() == 0 })
	}
	require.Equal(t, numbered("m", 5), r.stored("a"))
}

// Other transactions take ids between the ids of an open transaction. Nevertheless, the rows of the
// open transaction are stored in their order.
func TestRowsOfATransactionStayInOrder(t *testing.T) {
	r := newFixture(t)
	open, other := r.session(), r.session()
	open.exec("BEGIN")
	var want []string
	for i := range 30 {
		id := fmt.Sprintf("open%d", i)
		open.insert("a", id)
		want = append(want, id)
		other.insert("a", fmt.Sprintf("other%d", i))
		if i%10 == 5 {
			r.runStep()
		}
	}
	open.exec("COMMIT")
	r.runStep()
	var got []string
	for _, id := range r.stored("a") {
		if id[:4] == "open" {
			got = append(got, id)
		}
	}
	require.Equal(t, want, got)
	require.Zero(t, r.waiting())
}

// The second transaction waits for a row of the first transaction. It has the lower transaction id,
// but its row is stored later.
func TestARowInsertedAfterACommitIsStoredLater(t *testing.T) {
	r := newFixture(t)
	r.exec("CREATE TABLE public.account (id int PRIMARY KEY, n int)")
	r.exec("INSERT INTO public.account VALUES (1, 0), (2, 0)")
	first, second := r.session(), r.session()
	second.exec("BEGIN")
	second.exec("UPDATE public.account SET n = 1 WHERE id = 2")
	first.exec("BEGIN")
	first.exec("UPDATE public.account SET n = 1 WHERE id = 1")
	waited := make(chan error, 1)
	go func() {
		_, err := second.Exec(t.Context(), "UPDATE public.account SET n = 2 WHERE id = 1")
		waited <- err
	}()
	enginetest.Await(t, "the second waits", func() bool {
		return r.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == 1
	})
	first.insert("a", "first")
	first.exec("COMMIT")
	require.NoError(t, <-waited)
	second.insert("a", "second")
	second.exec("COMMIT")
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.inbox a JOIN belfry.inbox b ON b.id > a.id AND b.xid < a.xid`))
	r.runStep()
	require.Equal(t, []string{"first", "second"}, r.stored("a"))
}

func TestRolledBackRowsNeverAppear(t *testing.T) {
	r := newFixture(t)
	s := r.session()
	s.exec("BEGIN")
	s.insert("a", "never")
	s.exec("ROLLBACK")
	s.exec("BEGIN")
	s.insert("a", "one")
	s.exec("SAVEPOINT x")
	s.insert("a", "undone")
	s.exec("ROLLBACK TO x")
	s.exec("SAVEPOINT y")
	s.insert("a", "two")
	s.exec("RELEASE y")
	r.runStep()
	require.Empty(t, r.stored("a"), "the transaction has not committed")
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"one", "two"}, r.stored("a"))
}

// A scan finds rows that committed after the previous scan, even with lower ids and transaction
// ids.
func TestLateCommitsAreFound(t *testing.T) {
	r := newFixture(t)
	r.runStep()
	var open []session
	for i := range 5 {
		s := r.session()
		s.exec("BEGIN")
		s.insert("a", fmt.Sprint(i))
		open = append(open, s)
		r.session().insert("b", fmt.Sprint(i))
		r.runStep()
	}
	for _, i := range []int{3, 0, 4, 1, 2} {
		open[i].exec("COMMIT")
		r.runStep()
	}
	require.Equal(t, []string{"3", "0", "4", "1", "2"}, r.stored("a"))
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, r.stored("b"))
}

// The number of rows is larger than one scan and one transaction can move.
func TestManyRowsAreMovedInOrder(t *testing.T) {
	r := newFixture(t)
	const n = scanRows + 2*batchRows + 7
	r.exec(`INSERT INTO belfry.inbox (queue, partition, payload) SELECT 'q', 'p' || i % 3, to_json(i) FROM generate_series(1, $1::int) i`, n)
	r.runStep()
	require.Zero(t, r.waiting())
	require.Equal(t, int64(n), r.number("SELECT count(*) FROM belfry.message"))
	require.Zero(t, r.number(`SELECT count(*) FROM (SELECT m.payload::text::int AS n,
		lag(m.payload::text::int) OVER (PARTITION BY m.partition_id ORDER BY m.seq) AS before FROM belfry.message m) AS o WHERE o.n <= o.before`))
}

// A scan does not read deleted rows, although an old snapshot keeps vacuum from removing them.
func TestDeletedRowsCostNothing(t *testing.T) {
	r := newFixture(t)
	holder := r.session()
	holder.exec("BEGIN ISOLATION LEVEL REPEATABLE READ")
	holder.exec("SELECT count(*) FROM belfry.queue")
	writer := r.session()
	writer.exec("BEGIN")
	writer.insert("a", "late")
	r.exec(`INSERT INTO belfry.inbox (queue, payload) SELECT 'q', '1' FROM generate_series(1, 20000)`)
	r.runStep()
	r.session().insert("a", "now")
	buffers := func(snapshot string) (n int64) {
		var plan []struct {
			Plan struct {
				Hit  int64 `json:"Shared Hit Blocks"`
				Read int64 `json:"Shared Read Blocks"`
			}
		}
		require.NoError(t, r.Pool.QueryRow(enginetest.Context(t), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+scanQuery(snapshot), snapshot, scanRows, 1000).Scan(&plan))
		return plan[0].Plan.Hit + plan[0].Plan.Read
	}
	require.Less(t, buffers(r.scanned), int64(60))
	require.Greater(t, buffers(emptySnapshot), int64(200), "a full scan reads the deleted rows")
	r.runStep()
	require.Equal(t, []string{"now"}, r.stored("a"))
	writer.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"now", "late"}, r.stored("a"))
}

// A full scan reads only the rows that it returns. Reading the whole backlog could take longer than
// the statement timeout.
func TestAFullScanIsBounded(t *testing.T) {
	r := newFixture(t)
	r.runStep()
	require.NotEqual(t, emptySnapshot, r.scanned)
	r.exec(`ALTER TABLE belfry.inbox RENAME TO away`)
	_, err := r.step(enginetest.Context(t))
	require.Error(t, err)
	require.Equal(t, emptySnapshot, r.scanned, "the scan after a failed scan is a full scan")
	r.exec(`ALTER TABLE belfry.away RENAME TO inbox`)

	r.exec(`INSERT INTO belfry.inbox (queue, payload) SELECT 'q', '1' FROM generate_series(1, 20000)`)
	rows := func(query string) (n float64) {
		var plan []struct {
			Plan planNode
		}
		require.NoError(t, r.SequencerPool.QueryRow(enginetest.Context(t), "EXPLAIN (ANALYZE, FORMAT JSON) "+query, emptySnapshot, 10, 1000).Scan(&plan))
		return plan[0].Plan.most()
	}
	require.Less(t, rows(scanQuery(r.scanned)), 100.0)
	require.Greater(t, rows(sqlLook), 19000.0)
}

// planNode is a node of a query plan.
type planNode struct {
	Rows  float64 `json:"Actual Rows"`
	Plans []planNode
}

// most returns the largest number of rows that a node of the plan returns.
func (e planNode) most() float64 {
	n := e.Rows
	for _, child := range e.Plans {
		n = max(n, child.most())
	}
	return n
}

// After a failover, transaction ids may be assigned again. A resync makes the next scan a full
// scan.
func TestAResyncCausesAFullScan(t *testing.T) {
	r := newFixture(t)
	r.runStep()
	r.scanned = "1000000000:1000000000:"
	r.session().insert("a", "one")
	r.runStep()
	require.Empty(t, r.stored("a"), "the scan skips the row, because the saved snapshot contains its transaction id")
	r.OnResync("", events.Peer)
	r.runStep()
	require.Equal(t, []string{"one"}, r.stored("a"))
}

// ANALYZE usually sees an empty inbox. The plans must be good for a full inbox too: they find rows
// by id with the primary key, and new rows by transaction id.
func TestPlansForAnEmptyInboxAreGoodForAFullInbox(t *testing.T) {
	r := newFixture(t)
	r.exec("INSERT INTO belfry.inbox (queue, payload) SELECT 'q', '1' FROM generate_series(1, 50)")
	r.exec("DELETE FROM belfry.inbox")
	enginetest.Exec(t, r.SequencerPool, "VACUUM ANALYZE belfry.inbox")
	const parameters = "(text, bigint, bigint)"
	for name, statement := range map[string]struct{ parameters, query, arguments string }{
		"look":  {parameters, sql.Query("engine/inbox/look"), "('3:3:', 10, 10)"},
		"first": {parameters, sql.Query("engine/inbox/first"), "('3:3:', 10, 10)"},
		"take":  {"(bigint[])", "DELETE FROM belfry.inbox i WHERE i.id = ANY ($1)", "('{1,2}')"}, // as belfry.inbox_delete does
	} {
		conn, err := r.SequencerPool.Acquire(t.Context())
		require.NoError(t, err)
		enginetest.Exec(t, conn, "PREPARE "+name+statement.parameters+" AS "+statement.query, pgx.QueryExecModeSimpleProtocol)
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE "+name+statement.arguments, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		conn.Release()
		plan := strings.Join(lines, "\n")
		require.Contains(t, plan, "inbox_pkey", "%s:\n%s", name, plan)
		require.NotRegexp(t, `using inbox_xid[^\n]*\n *(Index Cond: \(id|Filter)`, plan, name)
		require.NotContains(t, plan, "Seq Scan", "%s:\n%s", name, plan)
	}
}
