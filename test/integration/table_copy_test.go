package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// copier applies the messages of a queue to a copy of table t.
type copier struct{ table, queue, pop string }

// copiers are three copiers. The first reads one partition with the changes of the whole table. The other two share
// partitions, one for each row.
var copiers = []copier{
	{"whole", "changes", `SELECT lease::text, payload FROM belfry.pop('changes', 'copy', 40)`},
	{"pieces", "rows", `SELECT lease::text, payload FROM belfry.pop('rows', 'copy', 10, partitions => 5)`},
	{"pieces", "rows", `SELECT lease::text, payload FROM belfry.pop('rows', 'copy', 3, partitions => 20)`},
}

// TestChangesOfManyWritersMakeACopy lets four sessions change the same rows of a table, in all isolation levels and with
// deadlocks. SQL consumers apply the messages to copies. Each step is one transaction with the ack of its messages.
// Meanwhile the test rolls steps back, ends sessions and kills a server. At the end each copy must equal the table. So no
// change was lost or repeated, and the changes of each row were in order.
func TestChangesOfManyWritersMakeACopy(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dsn := pgtest.Database(t)
	victim := startChild(t, dsn, dsn)
	startChild(t, dsn, dsn)
	conn := producer(t, dsn)
	execute(t, conn, `SET application_name = 'the judge'`)
	for _, table := range []string{"t", "whole", "pieces"} {
		execute(t, conn, fmt.Sprintf(`CREATE TABLE public.%s (id int PRIMARY KEY, v text NOT NULL, n int NOT NULL)`, table))
	}
	desk, err := attach.Open(t.Context(), dsn)
	require.NoError(t, err)
	for _, request := range []*attach.Request{
		{Table: "public.t", Queue: "changes", Payload: attach.PayloadChanges},
		{Table: "public.t", Queue: "rows", Key: []string{"id"}},
	} {
		err = desk.Attach(t.Context(), request)
		require.NoError(t, err)
	}
	require.NoError(t, desk.Close(t.Context()))

	failures := make(chan error, 7)
	var done writes
	writers := startWriters(t.Context(), dsn, seed, &done, failures)
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	readers := startCopiers(reading, dsn, seed, failures)
	until(t, "half of the transactions are done", func() bool { return done.committed.Load()+done.undone.Load() >= 120 || len(failures) > 0 })
	require.NoError(t, victim.process.Kill())
	startChild(t, dsn, dsn)
	writers.Wait()
	t.Logf("%d transactions committed, %d were undone", done.committed.Load(), done.undone.Load())
	until(t, "all changes are copied", func() (copied bool) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT NOT EXISTS (SELECT FROM belfry.inbox) AND NOT EXISTS (
			SELECT FROM belfry.cursor AS c JOIN belfry.partition AS p ON p.id = c.partition_id WHERE c.committed < p.last_seq)`).Scan(&copied))
		return copied || len(failures) > 0
	})
	stop()
	readers.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}

	differ := func(table string) (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*) FROM ((TABLE public.t EXCEPT TABLE public.%[1]s)
			UNION ALL (TABLE public.%[1]s EXCEPT TABLE public.t)) AS d`, table)).Scan(&n))
		return n
	}
	require.Zero(t, differ("whole"))
	require.Zero(t, differ("pieces"))
	var rows, rejected, dead int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM public.t), (SELECT count(*) FROM belfry.inbox_rejected),
		(SELECT count(*) FROM belfry.dead_letter)`).Scan(&rows, &rejected, &dead))
	require.Positive(t, rows)
	require.Zero(t, rejected)
	require.Zero(t, dead)
}

// writes counts the transactions of the writers.
type writes struct{ committed, undone atomic.Int64 }

// startWriters starts four sessions that write 60 transactions each.
func startWriters(ctx context.Context, dsn string, seed uint64, done *writes, failures chan<- error) *sync.WaitGroup {
	var writers sync.WaitGroup
	for i := range 4 {
		own := rand.New(rand.NewPCG(seed, uint64(i)))
		writers.Go(func() {
			for n := range 60 {
				switch err := writeSome(ctx, dsn, own, fmt.Sprint("w", i, "-", n)); {
				case err == nil:
					done.committed.Add(1)
				case meant(err):
					done.undone.Add(1)
				default:
					failures <- err
					return
				}
			}
		})
	}
	return &writers
}

// startCopiers runs the copiers until ctx ends.
func startCopiers(ctx context.Context, dsn string, seed uint64, failures chan<- error) *sync.WaitGroup {
	var readers sync.WaitGroup
	for i, c := range copiers {
		own := rand.New(rand.NewPCG(seed, uint64(100+i)))
		readers.Go(func() {
			for ctx.Err() == nil {
				if err := c.run(ctx, dsn, own); !meant(err) && ctx.Err() == nil {
					failures <- err
					return
				}
			}
		})
	}
	return &readers
}

var (
	// errUndone rolls a transaction back on purpose.
	errUndone = errors.New("undone on purpose")
	// errApart means that a change does not fit the copy: an earlier change is missing, or the change was delivered twice.
	errApart = errors.New("the copy differs from the table")
)

// meant reports whether a transaction failed in an expected way: it was rolled back on purpose, a deadlock or a
// serialization failure ended it, or its session was ended.
func meant(err error) bool {
	var said *pgconn.PgError
	if errors.Is(err, errApart) {
		return false
	}
	return !errors.As(err, &said) || slices.Contains([]string{"40P01", "40001", "57P01"}, said.Code)
}

// writeSome changes some rows of t in one transaction. Sometimes it first ends another session, but not the session of a
// migration, because a server with an interrupted migration does not start.
func writeSome(ctx context.Context, dsn string, random *rand.Rand, name string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // another session may have ended it
	if _, err = conn.Exec(ctx, `SET deadlock_timeout = '20ms'`); err != nil {
		return err
	}
	n := random.IntN
	if n(8) == 0 {
		_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
			AND pid <> pg_backend_pid() AND application_name NOT IN ('the judge', 'belfry migrate') ORDER BY random() LIMIT 1`)
		if err != nil {
			return err
		}
	}
	level := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}[n(4)]
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		for range 1 + n(4) {
			_, err := tx.Exec(ctx, []string{
				fmt.Sprintf(`INSERT INTO public.t SELECT i, '%s', 0 FROM generate_series(%d, %d) AS i ON CONFLICT DO NOTHING`, name, n(20), n(30)),
				fmt.Sprintf(`INSERT INTO public.t SELECT i, '%s', 0 FROM generate_series(%d, %d) AS i
					ON CONFLICT (id) DO UPDATE SET v = excluded.v, n = t.n + 1`, name, n(20), n(30)),
				fmt.Sprintf(`UPDATE public.t SET v = '%s', n = n + 1 WHERE id %% %d = %d`, name, 1+n(5), n(3)),
				fmt.Sprintf(`UPDATE public.t SET n = n + 1 WHERE id = %d`, n(30)),
				fmt.Sprintf(`DELETE FROM public.t WHERE id %% %d = %d`, 3+n(5), n(3)),
				fmt.Sprintf(`SAVEPOINT s; UPDATE public.t SET v = 'never' WHERE id < %d; ROLLBACK TO s`, n(30)),
			}[n(6)])
			if err != nil {
				return err
			}
		}
		if n(8) == 0 {
			return errUndone
		}
		return nil
	})
}

// run applies changes until its session or a transaction fails. It returns that error.
func (c *copier) run(ctx context.Context, dsn string, random *rand.Rand) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // another session may have ended it
	for {
		found := false
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			if found, err = c.step(ctx, tx); err == nil && random.IntN(8) == 0 {
				return errUndone
			}
			return err
		})
		if err == nil && !found {
			_, err = conn.WaitForNotification(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// step applies the next messages to the copy. If there is no message, it calls belfry.await.
func (c *copier) step(ctx context.Context, tx pgx.Tx) (found bool, err error) {
	type message struct {
		Lease   string
		Payload struct {
			Op  string
			Row struct {
				ID int
				V  string
				N  int
			}
		}
	}
	rows, err := tx.Query(ctx, c.pop)
	if err != nil {
		return false, err
	}
	messages, err := pgx.CollectRows(rows, pgx.RowToStructByPos[message])
	if err != nil {
		return false, err
	}
	if len(messages) == 0 {
		_, err = tx.Exec(ctx, `SELECT belfry.await($1, 'copy')`, c.queue)
		return false, err
	}
	for _, m := range messages {
		tag, err := tx.Exec(ctx, c.statement(m.Payload.Op), m.Payload.Row.ID, m.Payload.Row.V, m.Payload.Row.N)
		if err != nil {
			return false, err
		}
		if tag.RowsAffected() != 1 {
			return false, fmt.Errorf("%w: %s of row %d", errApart, m.Payload.Op, m.Payload.Row.ID)
		}
	}
	var leases []string // one for each partition
	for _, m := range messages {
		leases = append(leases, m.Lease)
	}
	_, err = tx.Exec(ctx, `SELECT belfry.ack(lease) FROM (SELECT DISTINCT unnest($1::uuid[])) AS l(lease)`, leases)
	return true, err
}

// statement returns the SQL for one change. The SQL changes no row if the change does not fit the copy.
func (c *copier) statement(op string) string {
	switch op {
	case "insert":
		return `INSERT INTO public.` + c.table + ` VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	case "update":
		return `UPDATE public.` + c.table + ` SET v = $2, n = $3 WHERE id = $1`
	default:
		return `DELETE FROM public.` + c.table + ` WHERE id = $1 AND v = $2 AND n = $3`
	}
}
