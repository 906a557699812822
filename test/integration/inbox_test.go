package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// producer returns a session for SQL clients.
func producer(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

func TestInsertWakesAWaitingConsumer(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	for i := range 3 { // the first insert creates the queue
		waiting := c.begin(popCall("orders", "wait=true&timeout=30000&autoAck=true"))
		c.untilWaiting(1)
		execute(t, producer(t, c.dsn), `INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ('orders', '{"n": 1}', $1)`, fmt.Sprint(i))
		got := waiting.delivery().ok(http.StatusOK)
		require.Equal(t, []string{fmt.Sprint(i)}, got.ids())
		require.JSONEq(t, `{"n": 1}`, string(got.Messages[0].Data))
	}
}

// A waiting pop is woken whichever instance runs the sequencer.
func TestInsertWakesConsumersOfEveryInstance(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	one, two := startOn(t, dsn).client(t), startOn(t, dsn).client(t)
	for _, c := range []client{one, two, one} {
		waiting := c.begin(popCall("orders", "wait=true&timeout=30000&autoAck=true"))
		c.untilWaiting(1)
		execute(t, producer(t, dsn), `SELECT belfry.push('orders', '1')`)
		require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)
	}
	require.NoError(t, one.stop(t))
	waiting := two.begin(popCall("orders", "wait=true&timeout=30000&autoAck=true"))
	two.untilWaiting(1)
	execute(t, producer(t, dsn), `SELECT belfry.push('orders', '2')`)
	require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)
}

func TestPushWithADelayOverSQL(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	conn := producer(t, c.dsn)
	began := time.Now()
	execute(t, conn, `SELECT belfry.push('orders', '1', transaction_id => 'later', delay => '700 ms')`)
	until(t, "the message is stored", func() bool {
		var n int
		c.scan(t, "SELECT count(*) FROM belfry.message", nil, &n)
		return n == 1
	})
	require.Equal(t, []string{"later"}, c.popIDs("orders", "wait=true&timeout=30000&autoAck=true"))
	require.Greater(t, time.Since(began), 700*time.Millisecond)
}

// Without a notification, the scan at the fallback interval finds the message.
func TestTheFallbackFindsUnannouncedMessages(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *config.Config) { cfg.Dispatch.FallbackInterval = 300 * time.Millisecond }).client(t)
	conn := producer(t, c.dsn)
	execute(t, conn, "SET belfry.notify = off")
	execute(t, conn, `SELECT belfry.push('orders', '1', transaction_id => 'silent')`)
	require.Equal(t, []string{"silent"}, c.popIDs("orders", "wait=true&timeout=30000&autoAck=true"))
}

// sqlProducer commits random transactions with savepoints and keeps what it committed.
type sqlProducer struct {
	random *rand.Rand
	conn   *pgx.Conn
	name   string
	// committed has the ids of its committed messages by partition, in order.
	committed map[string][]string
}

// transact runs one transaction with inserts in several partitions. It rolls some back to a savepoint, and sometimes
// the whole transaction.
func (p *sqlProducer) transact(ctx context.Context, nth int) error {
	tx, err := p.conn.Begin(ctx)
	if err != nil {
		return err
	}
	kept := map[string][]string{}
	insert := func(tx pgx.Tx, into map[string][]string, id string) error {
		partition := fmt.Sprint("p", p.random.IntN(4))
		into[partition] = append(into[partition], id)
		statement := `INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('q', $1, '1', $2)`
		if p.random.IntN(2) == 0 {
			statement = `SELECT belfry.push('q', '1', $1, $2)`
		}
		_, err := tx.Exec(ctx, statement, partition, id)
		return err
	}
	for step := range 1 + p.random.IntN(6) {
		id := fmt.Sprintf("%s-%d-%d", p.name, nth, step)
		if p.random.IntN(3) > 0 {
			if err := insert(tx, kept, id); err != nil {
				return err
			}
			continue
		}
		inner, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return err
		}
		some := map[string][]string{}
		for k := range 3 {
			if err := insert(inner, some, fmt.Sprintf("%s.%d", id, k)); err != nil {
				return err
			}
		}
		if p.random.IntN(2) == 0 {
			if err := inner.Rollback(ctx); err != nil {
				return err
			}
			continue
		}
		if err := inner.Commit(ctx); err != nil {
			return err
		}
		for partition, ids := range some {
			kept[partition] = append(kept[partition], ids...)
		}
	}
	if p.random.IntN(5) == 0 {
		return tx.Rollback(ctx)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	for partition, ids := range kept {
		p.committed[partition] = append(p.committed[partition], ids...)
	}
	return nil
}

// 100 random transactions of 8 sessions run while one of two servers stops. Each committed message is delivered once,
// and the messages of a session in a partition arrive in its order.
func TestRandomTransactionsAreDeliveredOnceAndInOrder(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	leaving, c := startOn(t, dsn), startOn(t, dsn).client(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	producers := make([]*sqlProducer, 8)
	failures := make([]error, len(producers))
	var all sync.WaitGroup
	for i := range producers {
		p := &sqlProducer{
			random: rand.New(rand.NewPCG(seed, uint64(i))), conn: producer(t, dsn), name: fmt.Sprint("s", i), committed: map[string][]string{},
		}
		producers[i] = p
		all.Go(func() {
			for nth := range 13 {
				if nth == 6 && i == 0 {
					leaving.cancel()
				}
				if failures[i] = p.transact(t.Context(), nth); failures[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	want := 0
	for i, p := range producers {
		require.NoError(t, failures[i])
		for _, ids := range p.committed {
			want += len(ids)
		}
	}
	got, seen := map[string][]string{}, 0
	for seen < want {
		d := c.pop("q", "batch=100&wait=true&timeout=30000&autoAck=true")
		require.Equal(t, http.StatusOK, d.Status, "%d of %d messages were delivered", seen, want)
		for _, m := range d.body.Messages {
			seen++
			key := m.Partition + " " + strings.Split(m.TransactionID, "-")[0]
			got[key] = append(got[key], m.TransactionID)
		}
	}
	require.Empty(t, c.popIDs("q", "batch=100"), "no message was rolled back or delivered twice")
	for _, p := range producers {
		for partition, ids := range p.committed {
			require.Equal(t, ids, got[partition+" "+p.name], "partition %s, session %s", partition, p.name)
		}
	}
}

// The rows of a restored dump have the transaction ids of another cluster. This cluster has used some of them, and will
// not use others for a long time.
func TestRowsWithForeignTransactionIDsAreMoved(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	execute(t, producer(t, dsn), `INSERT INTO belfry.inbox (queue, transaction_id, payload, xid)
		SELECT 'q', n::text, '1', xid::xid8 FROM unnest(ARRAY['9000000000000000000', '3', '9000000000000000001', '4']) WITH ORDINALITY AS r(xid, n)`)
	c := startOn(t, dsn).client(t)
	require.Equal(t, []string{"1", "2", "3", "4"}, c.popIDs("q", "batch=10&wait=true&timeout=20000&autoAck=true"))
	execute(t, producer(t, dsn), `INSERT INTO belfry.inbox (queue, transaction_id, payload) VALUES ('q', '5', '1')`)
	require.Equal(t, []string{"5"}, c.popIDs("q", "batch=10&wait=true&timeout=20000&autoAck=true"))
}
