package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// sqlPopped is a row of belfry.pop.
type sqlPopped struct {
	Lease, ID     string
	Partition     string
	TransactionID string
	Attempt       int
}

// connect opens a separate session, like an application.
func (b *bench) connect() *pgx.Conn {
	b.t.Helper()
	conn := enginetest.Connect(b.t, b.pool.Config().ConnString())
	return conn
}

func (b *bench) begin(conn *pgx.Conn) pgx.Tx {
	b.t.Helper()
	tx, err := conn.Begin(b.t.Context())
	require.NoError(b.t, err)
	return tx
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// sqlPop calls belfry.pop.
func (b *bench) sqlPop(q querier, group string, batch, partitions int) []sqlPopped {
	b.t.Helper()
	rows, err := q.Query(b.t.Context(), `SELECT lease, message_id, partition_name, transaction_id, attempt
		FROM belfry.pop('q', $1, $2, partitions => $3)`, group, batch, partitions)
	require.NoError(b.t, err)
	popped, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p sqlPopped, err error) {
		err = row.Scan(&p.Lease, &p.ID, &p.Partition, &p.TransactionID, &p.Attempt)
		return p, err
	})
	require.NoError(b.t, err)
	return popped
}

func sqlIDs(popped []sqlPopped) []string {
	ids := make([]string, len(popped))
	for i, p := range popped {
		ids[i] = p.TransactionID
	}
	return ids
}

// sqlAck calls belfry.ack. With nil ids it acknowledges all messages of the lease.
func sqlAck(ctx context.Context, q querier, lease string, ids []string, status string) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT belfry.ack($1, $2::uuid[], $3, 'the reason')`, lease, ids, status).Scan(&n)
	return n, err
}

func (b *bench) sqlAck(q querier, lease string, ids []string, status string) int {
	b.t.Helper()
	n, err := sqlAck(b.t.Context(), q, lease, ids, status)
	require.NoError(b.t, err)
	return n
}

func requireState(t *testing.T, err error, state, hint string) {
	t.Helper()
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, state, pg.Code)
	require.Contains(t, pg.Hint, hint)
}

func TestEffectsAndAckCommitTogether(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1", "2")
	b.exec(`CREATE TABLE public.effect (n text)`)
	conn := b.connect()
	for _, commits := range []bool{false, true} {
		tx := b.begin(conn)
		popped := b.sqlPop(tx, "g", 9, 1)
		require.Equal(t, []string{"1", "2"}, sqlIDs(popped))
		require.Equal(t, 1, popped[0].Attempt, "a rolled back pop counts no attempt")
		enginetest.Exec(t, tx, `INSERT INTO public.effect VALUES ('done')`)
		require.Equal(t, 2, b.sqlAck(tx, popped[0].Lease, nil, "completed"))
		require.Equal(t, "on", enginetest.Value[string](t, tx, `SHOW synchronous_commit`), "the commit of the consumer waits for the disk")
		if commits {
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
	require.Equal(t, 1, b.count(`SELECT count(*) FROM public.effect`))
	require.Equal(t, 2, b.committed())
	require.Empty(t, b.pop(request("g", 9)).Messages)
}

// An expired lease fails even if no other consumer has popped the messages since.
func TestAnExpiredLeaseFailsTheTransaction(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	b.exec(`CREATE TABLE public.effect (n text)`)
	conn := b.connect()
	popped := b.sqlPop(conn, "g", 1, 1)
	b.endLeases()
	fails := func() {
		for _, verb := range []string{`SELECT belfry.ack($1)`, `SELECT belfry.extend($1, 60)`} {
			tx := b.begin(conn)
			enginetest.Exec(t, tx, `INSERT INTO public.effect VALUES ('done')`)
			_, err := tx.Exec(t.Context(), verb, popped[0].Lease)
			requireState(t, err, "BF010", "Roll back and pop again")
			require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxCommitRollback)
		}
	}
	fails()
	other := b.pop(request("g", 1))
	require.Len(t, other.Messages, 1)
	require.Equal(t, 2, other.Messages[0].Attempt)
	fails()
	require.Zero(t, b.count(`SELECT count(*) FROM public.effect`))
	require.True(t, b.ack(other, queue.AckCompleted, other.Messages...)[0].Success, "the lease of the other consumer is untouched")
}

func TestExtendNeverShortensALease(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	conn := b.connect()
	popped := b.sqlPop(conn, "g", 1, 1)
	var left float64
	b.scan(`SELECT extract(epoch FROM belfry.extend($1, 3600) - clock_timestamp())::float8`, []any{popped[0].Lease}, &left)
	require.Greater(t, left, 3000.0)
	b.scan(`SELECT extract(epoch FROM belfry.extend($1, 1) - clock_timestamp())::float8`, []any{popped[0].Lease}, &left)
	require.Greater(t, left, 3000.0, "the lease is never shorter than before")
	require.Equal(t, 1, b.sqlAck(conn, popped[0].Lease, nil, "completed"))
}

// A SQL consumer locks the cursors of its partitions until its transaction ends. Other consumers
// skip these partitions and do not wait.
func TestOtherConsumersSkipPartitionsOfAnOpenTransaction(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1", "2")
	conn, another := b.connect(), b.connect()
	tx := b.begin(conn)
	require.Equal(t, []string{"1"}, sqlIDs(b.sqlPop(tx, "g", 1, 1)))

	held := b.pop(request("g", 9))
	require.Empty(t, held.Messages)
	require.True(t, held.HasNext, "a rollback sends no notification, so the answer contains the time of the next pop")
	require.LessOrEqual(t, held.NextIn, time.Second)
	require.Equal(t, b.resolve(request("g", 9)), held.Target, "the group is not deleted")
	require.Empty(t, b.sqlPop(another, "g", 9, 1))

	b.push("other", "3")
	require.Equal(t, []string{"3"}, transactionIDs(b.pop(request("g", 9))))
	b.push("p", "4") // a push does not wait for the transaction either
	require.NoError(t, conn.Close(t.Context()), "the consumer disconnects")
	require.Eventually(t, func() bool {
		d := b.pop(request("g", 9))
		return len(d.Messages) == 3 && d.Messages[0].Attempt == 1
	}, time.Minute, 10*time.Millisecond)
}

// I3: a push commits before a SQL consumer commits an ack that drains the cursor. No wake follows
// the commit of the ack, so the ack leaves the cursor marked ready.
func TestASQLConsumerStrandsNoCursor(t *testing.T) {
	b := newBench(t, "g", "h")
	b.push("p", "1")
	conn := b.connect()
	tx := b.begin(conn)
	popped := b.sqlPop(tx, "g", 9, 1)
	b.sqlAck(tx, popped[0].Lease, nil, "completed")
	b.push("p", "2")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{"2"}, transactionIDs(b.pop(request("g", 9))))

	// A cursor of a group that joins is not stranded either.
	tx = b.begin(conn)
	enginetest.Exec(t, tx, `SELECT belfry.subscribe('q', 'late', 'new')`)
	b.push("p", "3")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{"3"}, sqlIDs(b.sqlPop(conn, "late", 9, 1)))
	require.Zero(t, b.stranded())
}

// A SQL consumer leaves a drained cursor marked ready. An instance clears ready_at of the cursor,
// and the next push sets it again.
func TestTheServiceSettlesDrainedCursorsOfSQLConsumers(t *testing.T) {
	b := newBench(t, "g")
	startRun(t, b.Store)
	conn := b.connect()
	var group, partition int64
	b.scan(`SELECT group_id, partition_id FROM belfry.cursor`, nil, &group, &partition)
	for _, id := range []string{"1", "2"} {
		b.push("p", id)
		popped := b.sqlPop(conn, "g", 9, 1)
		require.Equal(t, []string{id}, sqlIDs(popped))
		b.sqlAck(conn, popped[0].Lease, nil, "completed")
		_, due := b.readyIn()
		require.True(t, due)
		b.OnReady([]queue.Ready{{Group: group, Partition: partition}}, events.SQL)
		require.Eventually(t, func() bool { _, due := b.readyIn(); return !due }, time.Minute, 5*time.Millisecond)
	}
	require.Equal(t, 2, b.committed())
	require.Zero(t, b.stranded())
}

func TestTheCommitOfASQLConsumerSendsANotification(t *testing.T) {
	b := newBench(t, "g")
	listener, conn := b.connect(), b.connect()
	enginetest.Exec(t, listener, `LISTEN belfry`)
	const record = `SELECT '1;i=00000000-0000-0000-0000-000000000000;r=' || group_id || '/' || partition_id || '@' || `
	b.push("p", "1")
	const soon = `(SELECT group_id, partition_id FROM belfry.cursor OFFSET 0) AS c, belfry.announce_ready(c.group_id, c.partition_id)`
	const leased = `(SELECT lease_id FROM belfry.cursor OFFSET 0) AS c, `
	for _, verb := range []string{
		`belfry.pop('q', 'g')`, leased + `belfry.extend(c.lease_id, 60)`, leased + `belfry.ack(c.lease_id)`, soon,
	} {
		if verb == soon {
			b.exec(`UPDATE belfry.cursor SET ready_at = clock_timestamp() + interval '9 seconds'`)
		}
		enginetest.Exec(t, conn, `SELECT FROM `+verb)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		heard, err := listener.WaitForNotification(ctx)
		cancel()
		require.NoError(t, err, verb)
		var want string
		if verb == soon {
			b.scan(record+`0 FROM belfry.cursor`, nil, &want) // the time may have passed before the commit
		} else {
			b.scan(record+`(extract(epoch FROM ready_at) * 1000000)::bigint FROM belfry.cursor`, nil, &want)
		}
		require.Equal(t, want, heard.Payload, verb)
	}
	b.exec(`UPDATE belfry.cursor SET ready_at = clock_timestamp()`)
	for _, mode := range []string{"off", "False", "no", "0"} {
		enginetest.Exec(t, conn, `SELECT set_config('belfry.notify', $1, false)`, mode)
		b.push("p", mode)
		b.sqlAck(conn, b.sqlPop(conn, "g", 9, 1)[0].Lease, nil, "completed")
	}
	enginetest.Exec(t, conn, `SELECT pg_notify('belfry', 'the end')`)
	heard, err := listener.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the end", heard.Payload, "with belfry.notify off no notification is sent")
}

// belfry.pop keeps no lock on a partition that another consumer has leased. Otherwise the other
// consumer could not acknowledge before the end of the transaction.
func TestASQLPopLocksOnlyThePartitionsItLeases(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	b.push("p2", "2")
	other := b.pop(request("g", 1))
	require.Len(t, other.Messages, 1)
	tx := b.begin(b.connect())
	require.Len(t, b.sqlPop(tx, "g", 9, 9), 1)
	require.Empty(t, b.sqlPop(tx, "g", 9, 9))
	require.True(t, b.ack(other, queue.AckCompleted, other.Messages...)[0].Success)
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestErrorsOfSQLFunctionsNameTheBadValue(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	conn := b.connect()
	for call, want := range map[string][2]string{
		`SELECT belfry.pop('', 'g')`:                                      {"22023", "the name of the queue is 0 bytes long"},
		`SELECT belfry.pop('q', NULL)`:                                    {"22023", "the name of the consumer group is NULL"},
		`SELECT belfry.pop('q', repeat('g', 256))`:                        {"22023", "the name of the consumer group is 256 bytes long"},
		`SELECT belfry.pop('q', 'g', 0)`:                                  {"22023", "a pop takes 1 to 10000 messages from 1 to 1000 partitions"},
		`SELECT belfry.pop('q', 'g', partitions => NULL)`:                 {"22023", "/ batch is 1, partitions is NULL."},
		`SELECT belfry.await('')`:                                         {"22023", "the name of the queue is 0 bytes long"},
		`SELECT belfry.await('q', NULL)`:                                  {"22023", "the name of the consumer group is NULL"},
		`SELECT belfry.await('q', partition => repeat('p', 256))`:         {"22023", "the name of the partition is 256 bytes long"},
		`SELECT belfry.ack(gen_random_uuid(), status => 'done')`:          {"22023", "'completed'"},
		`SELECT belfry.ack(gen_random_uuid())`:                            {"BF010", "pop again"},
		`SELECT belfry.ack(NULL)`:                                         {"22004", "nothing to acknowledge"},
		`SELECT belfry.extend(gen_random_uuid(), 0)`:                      {"22023", "seconds is 0."},
		`SELECT belfry.extend(NULL, 60)`:                                  {"22004", "nothing to extend"},
		`SELECT belfry.subscribe('none', 'g')`:                            {"42704", "first message"},
		`SELECT belfry.subscribe('q', 'g', 'later')`:                      {"22023", "'timestamp'"},
		`SELECT belfry.subscribe('q', 'g', 'timestamp')`:                  {"22023", "has no start_at"},
		`SELECT belfry.subscribe('q', 'g', 'new', now())`:                 {"22023", "'new' has a start_at"},
		`SELECT belfry.subscribe('q', 'g', 'timestamp', now() + '1 day')`: {"22023", "HTTP API"},
	} {
		_, err := conn.Exec(t.Context(), call)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, call)
		require.Equal(t, want[0], pg.Code, call)
		require.Contains(t, strings.Join([]string{pg.Message, pg.Detail, pg.Hint}, " / "), want[1], call)
	}
	for _, call := range []string{`SELECT belfry.pop('none', 'g')`, `SELECT belfry.pop('q', 'g', partition => 'none')`} {
		tag, err := conn.Exec(t.Context(), call)
		require.NoError(t, err)
		require.Zero(t, tag.RowsAffected(), "the pop returns no rows, like a pop over HTTP")
	}
	lease := b.sqlPop(conn, "g", 1, 1)[0].Lease
	require.Equal(t, 1, b.sqlAck(conn, lease, nil, "completed"))
	_, err := sqlAck(t.Context(), conn, lease, nil, "completed")
	requireState(t, err, "BF010", "unless the messages were acknowledged")
	var ended *pgconn.PgError
	require.ErrorAs(t, err, &ended)
	require.Contains(t, ended.Detail, "Either all its messages were acknowledged")
	b.option("encryption_enabled = true")
	_, err = conn.Exec(t.Context(), `SELECT belfry.pop('q', 'g')`)
	requireState(t, err, "BF011", "HTTP API")
}

// A consumer loops in a DO block, where statement_timestamp() stays at the start of the block. It
// still gets messages that are pushed later.
func TestAConsumerInADOBlockGetsLaterMessages(t *testing.T) {
	b := newBench(t, "g")
	b.exec(`CREATE TABLE public.effect (transaction_id text); CREATE TABLE public.stop (n int)`)
	worker := b.connect()
	done := make(chan error, 1)
	go func() {
		_, err := worker.Exec(t.Context(), `DO $$
			DECLARE r record;
			BEGIN
				WHILE NOT EXISTS (SELECT 1 FROM public.stop) LOOP
					FOR r IN SELECT p.lease, p.transaction_id FROM belfry.pop('q', 'g') AS p LOOP
						INSERT INTO public.effect VALUES (r.transaction_id);
						PERFORM belfry.ack(r.lease);
					END LOOP;
					COMMIT;
					PERFORM pg_sleep(0.01);
				END LOOP;
			END $$`)
		done <- err
	}()
	for _, id := range numbered("m", 3) {
		b.push("p", id)
		enginetest.Await(t, "the worker has "+id, func() (there bool) {
			b.scan(`SELECT EXISTS (SELECT 1 FROM public.effect WHERE transaction_id = $1)`, []any{id}, &there)
			return there
		})
	}
	b.exec(`INSERT INTO public.stop VALUES (1)`)
	require.NoError(t, <-done)
}
