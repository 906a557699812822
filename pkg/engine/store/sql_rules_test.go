package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A transaction fails if its lease ends between its pop and its ack. This also holds if now() and
// statement_timestamp() are before the end of the lease, as in a long DO block.
func TestAnAckFailsIfItsLeaseEndedInTheSameTransaction(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	b.exec(`CREATE TABLE public.effect (n text)`)
	conn := b.connect()
	for _, verb := range []string{`belfry.ack(v_lease)`, `belfry.extend(v_lease, 60)`} {
		tx := b.begin(conn)
		_, err := tx.Exec(t.Context(), `DO $$
			DECLARE v_lease uuid;
			BEGIN
				SELECT p.lease INTO STRICT v_lease FROM belfry.pop('q', 'g') AS p;
				INSERT INTO public.effect VALUES ('done');
				UPDATE belfry.cursor SET lease_until = clock_timestamp() WHERE lease_id = v_lease;
				PERFORM `+verb+`;
			END $$`)
		requireState(t, err, "BF010", "Roll back and pop again")
		require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxCommitRollback)
	}
	require.Zero(t, b.count(`SELECT count(*) FROM public.effect`))
	require.Equal(t, []string{"1"}, sqlIDs(b.sqlPop(conn, "g", 1, 1)), "the message is due at once")
}

// An ack before the end of the lease stays valid if the lease ends before the commit. No other
// consumer gets the messages before the commit.
func TestAnAckInTimeStaysValidUntilTheCommit(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1", "2")
	conn, another := b.connect(), b.connect()
	popped := b.sqlPop(conn, "g", 2, 1)
	tx := b.begin(conn)
	require.Equal(t, 1, b.sqlAck(tx, popped[0].Lease, []string{popped[0].ID}, "completed"))
	enginetest.Exec(t, tx, `UPDATE belfry.cursor SET lease_until = clock_timestamp(), ready_at = clock_timestamp()`)
	require.Empty(t, b.pop(request("g", 2)).Messages)
	require.Empty(t, b.sqlPop(another, "g", 2, 1))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{"2"}, sqlIDs(b.sqlPop(another, "g", 2, 1)))
}

// An ack or a pop fails if its snapshot is older than the latest change of the cursor. The lease of
// another consumer is not affected.
func TestAnOldSnapshotIsFenced(t *testing.T) {
	t.Parallel()
	for verb, state := range map[string]string{
		`SELECT belfry.ack($1::uuid)`:                    "40001",
		`SELECT belfry.extend($1::uuid, 60)`:             "BF010", // the lease has ended in the snapshot too
		`SELECT $1::uuid FROM belfry.pop('q', 'g')`:      "40001",
		`SELECT belfry.ack($1::uuid, status => 'retry')`: "40001",
	} {
		t.Run(verb, func(t *testing.T) {
			b := newBench(t, "g")
			b.push("p", "1")
			conn := b.connect()
			popped := b.sqlPop(conn, "g", 1, 1)
			b.endLeases()
			tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `SELECT`) // takes the snapshot
			require.NoError(t, err)
			other := b.sqlPop(b.connect(), "g", 1, 1)
			require.Len(t, other, 1)
			_, err = tx.Exec(t.Context(), verb, popped[0].Lease)
			requireState(t, err, state, "")
			require.NoError(t, tx.Rollback(t.Context()))
			require.Equal(t, 1, b.sqlAck(conn, other[0].Lease, nil, "completed"), "the lease of the other consumer is untouched")
		})
	}
}

// belfry.ack settles one cursor. It refuses a lease of several partitions and changes nothing.
func TestSQLAckRefusesALeaseOfSeveralPartitions(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	b.push("other", "2")
	req := request("g", 9, across(2))
	d := b.pop(req)
	require.Len(t, d.Messages, 2)
	_, err := sqlAck(t.Context(), b.connect(), d.LeaseID.String(), nil, "completed")
	requireState(t, err, "22023", "HTTP API")
	require.Zero(t, b.committed())
}

// consumed returns the number of messages that all groups have consumed.
func (b *bench) consumed() (n int) {
	b.t.Helper()
	b.scan(`SELECT coalesce(sum(consumed), 0) FROM belfry.cursor`, nil, &n)
	return n
}

// consumeInSQL runs one round of a SQL consumer: pop, effects and ack in one transaction. One in
// five transactions rolls back. It returns the number of consumed messages.
func consumeInSQL(ctx context.Context, conn *pgx.Conn, group string) (n int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ignoreClosed(tx.Rollback(context.WithoutCancel(ctx)))) }()
	tag, err := tx.Exec(ctx, `WITH popped AS MATERIALIZED (
			SELECT lease, partition_name, seq FROM belfry.pop('q', $1, $2, partitions => $3)
		), effects AS (
			INSERT INTO public.effect (group_name, partition_name, seq) SELECT $1, partition_name, seq FROM popped
		)
		SELECT belfry.ack(l.lease) FROM (SELECT DISTINCT lease FROM popped) AS l`, group, 1+rand.IntN(5), 1+rand.IntN(3))
	if err != nil || tag.RowsAffected() == 0 || rand.IntN(5) == 0 {
		return 0, err
	}
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM public.effect WHERE xmin = pg_current_xact_id()::xid`).Scan(&n); err != nil {
		return 0, err
	}
	return n, tx.Commit(ctx)
}

func ignoreClosed(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	return err
}

// SQL consumers and HTTP consumers of one group race while messages are pushed. Each message is
// consumed once: a second effect would violate the primary key. No cursor is stranded, and no
// deadlock occurs.
func TestSQLAndHTTPConsumersRace(t *testing.T) {
	const rounds, partitions, each = 2000, 3, 2
	b := newBench(t, "g")
	b.exec(`CREATE TABLE public.effect (group_name text, partition_name text, seq bigint, PRIMARY KEY (group_name, partition_name, seq))`)
	var pushed, consumed atomic.Int64
	work, ctx := errgroup.WithContext(t.Context())
	for range each {
		work.Go(func() error {
			for {
				n := pushed.Add(1)
				if n > rounds {
					return nil
				}
				if _, err := b.Push(ctx, []queue.PushItem{item(fmt.Sprintf("p%d", rand.IntN(partitions)), fmt.Sprintf("m%d", n))}); err != nil {
					return err
				}
			}
		})
		conn := b.connect()
		work.Go(func() error {
			for consumed.Load() < rounds {
				n, err := consumeInSQL(ctx, conn, "g")
				if err != nil {
					return fmt.Errorf("consuming in SQL: %w", err)
				}
				consumed.Add(int64(n))
			}
			return nil
		})
		work.Go(func() error {
			for consumed.Load() < rounds {
				d, err := b.Pop(ctx, request("g", 1+rand.IntN(5)))
				if err != nil {
					return err
				}
				for _, m := range d.Messages {
					if _, err := b.pool.Exec(ctx, `INSERT INTO public.effect VALUES ('g', $1, $2)`, m.Partition.Name, m.Seq); err != nil {
						return err
					}
				}
				if len(d.Messages) == 0 {
					continue
				}
				results, err := b.Ack(ctx, acks(d, queue.AckCompleted, d.Messages...))
				if err != nil || !results[0].Success {
					return fmt.Errorf("acknowledging: %v: %w", results, err)
				}
				consumed.Add(int64(len(d.Messages)))
			}
			return nil
		})
	}
	require.NoError(t, work.Wait())
	var effects, behind int
	b.scan(`SELECT count(*) FROM public.effect`, nil, &effects)
	b.scan(`SELECT sum(p.last_seq - c.committed) FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id`, nil, &behind)
	require.Equal(t, rounds, effects)
	require.Zero(t, behind)
	require.Zero(t, b.stranded())
	require.Zero(t, b.deadlocks())
}

// cursorStates returns the state of each cursor of a group, with its redriven messages and dead letters.
func (b *bench) cursorStates(group string) (text string) {
	b.t.Helper()
	b.scan(`SELECT string_agg(format('%s: committed %s failures %s attempts %s skip %s leased %s end %s consumed %s redrives %s (%s) dead %s',
			c.partition_id, c.committed, c.failures, c.attempts, c.skip, c.lease_id IS NOT NULL, c.lease_end, c.consumed, c.redrives,
			(SELECT string_agg(r.seq || '/' || r.failures || '/' || r.attempts, ' ' ORDER BY r.seq) FROM belfry.redrive r
			  WHERE r.partition_id = c.partition_id AND r.group_id = c.group_id),
			(SELECT string_agg(d.seq || '/' || d.attempts || '/' || d.error, ' ' ORDER BY d.seq) FROM belfry.dead_letter d
			  WHERE d.partition_id = c.partition_id AND d.group_id = c.group_id)), E'\n' ORDER BY c.partition_id)
		FROM belfry.cursor c JOIN belfry.consumer_group g ON g.id = c.group_id WHERE g.name = $1`, []any{group}, &text)
	return text
}

// twins are two consumers that make the same calls: a consumer of group h through the API, and a
// consumer of group s in SQL.
type twins struct {
	*bench
	random *rand.Rand
	sql    querier
	held   []queue.Delivery
	popped [][]sqlPopped
}

func (w *twins) pops() {
	batch := 1 + w.random.IntN(4)
	d, popped := w.pop(request("h", batch)), w.sqlPop(w.sql, "s", batch, 1)
	require.Equal(w.t, transactionIDs(d), sqlIDs(popped))
	if len(popped) == 0 {
		return
	}
	for i, m := range d.Messages {
		require.Equal(w.t, m.Attempt, popped[i].Attempt)
	}
	w.held, w.popped = append(w.held, d), append(w.popped, popped)
}

// acks sends the same ack for some messages of one delivery, through the API and in SQL.
func (w *twins) acks() {
	if len(w.held) == 0 {
		return
	}
	at := len(w.held) - 1
	if w.random.IntN(4) == 0 {
		at = w.random.IntN(len(w.held)) // this lease has probably ended
	}
	d, popped := w.held[at], w.popped[at]
	status := []string{"completed", "completed", "failed", "retry", "dlq"}[w.random.IntN(5)]
	// belfry.ack accepts only messages that the lease still covers.
	var done int64
	var parked []int64
	w.scan(`SELECT coalesce(max(committed) FILTER (WHERE lease_end > 0), 0), coalesce(max(parked) FILTER (WHERE lease_end > 0), '{}')
		FROM (SELECT *, ARRAY (SELECT generate_series(lower(s), upper(s) - 1) FROM unnest(skip) AS s) AS parked FROM belfry.cursor) AS cursor WHERE lease_id = $1`, []any{popped[0].Lease}, &done, &parked)
	var messages []queue.Message
	var ids []string
	whole := w.random.IntN(2) == 0
	for i := range popped {
		if seq := d.Messages[i].Seq; seq > done && !slices.Contains(parked, seq) && (whole || w.random.IntN(2) == 0) {
			messages, ids = append(messages, d.Messages[i]), append(ids, popped[i].ID)
		}
	}
	if len(messages) == 0 {
		return
	}
	items := acks(d, queue.ParseAckStatus(status), messages...)
	for i := range items {
		items[i].Error = "the reason"
	}
	results, err := w.Ack(w.t.Context(), items)
	require.NoError(w.t, err)
	if whole {
		ids = nil
	}
	_, err = sqlAck(w.t.Context(), w.sql, popped[0].Lease, ids, status)
	fenced := false
	for _, r := range results {
		fenced = fenced || r.Error != ""
	}
	require.Equal(w.t, fenced, err != nil, "%+v, but in SQL %v", results, err)
}

// An ack in SQL has the same effect as an ack through the API.
func TestSQLAcksFollowTheSameRules(t *testing.T) {
	b := newBench(t, "h", "s")
	b.option("retry_limit = 1")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var parked, redriven bool
	w := &twins{bench: b, random: rand.New(rand.NewPCG(seed, 0)), sql: b.connect()}
	for step := range 300 {
		if step%6 == 0 {
			b.push([]string{"p", "other"}[w.random.IntN(2)], fmt.Sprint("a", step), fmt.Sprint("b", step))
		}
		// A pop takes the cursor that has been due longest. So the test gives the cursors of both
		// groups the same order. The cursors are due for less than 0.5 s, the margin of a floor in
		// sql/functions/consume/save_scan_floor.sql.
		b.exec(`UPDATE belfry.cursor SET ready_at = statement_timestamp() - interval '0.1 s' + make_interval(secs => partition_id / 1000.0)
			WHERE ready_at <= statement_timestamp()`)
		switch n := w.random.IntN(20); {
		case n < 8:
			w.pops()
		case n < 18:
			w.acks()
		case n < 19:
			b.endLeases()
		default:
			redriven = b.redrive() > 0 || redriven
		}
		place := b.cursorStates("s")
		parked = parked || strings.Contains(place, "the reason")
		require.Equal(t, b.cursorStates("h"), place, "after step %d of seed %d", step, seed)
	}
	require.Positive(t, b.count(`SELECT sum(consumed) FROM belfry.cursor`))
	require.True(t, parked)
	require.True(t, redriven)
}
