package inbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// insert pushes a message with a plain INSERT.
func (f *fixture) insert(queue, id string) {
	f.T.Helper()
	f.Exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ($1, '{"hello": "world"}', $2)`, queue, id)
}

// push pushes a message over HTTP.
func (f *fixture) push(queue, id string) {
	f.T.Helper()
	f.Post("/api/v1/push", `{"items":[{"queue":"`+queue+`","transactionId":"`+id+`","payload":{"hello": "world"}}]}`)
}

// timeDeliveries returns the times of n messages until the answer arrives at a waiting consumer. fromStart counts from the
// start of the push, and fromAnswer from the answer to the push.
func (f *fixture) timeDeliveries(name string, n int, push func(queue, id string)) (fromStart, fromAnswer *load.Times) {
	f.T.Helper()
	fromStart, fromAnswer = load.NewTimes(), load.NewTimes()
	arrivals := make(chan arrival, 1)
	consumer := load.NewWorkers(f.Ctx)
	consumer.Go(func(ctx context.Context) error { return f.consume(ctx, name, arrivals) })
	for range n {
		require.NoError(f.T, f.Server.WaitWaiting(f.Ctx, 1))
		f.sent++
		id := fmt.Sprint(f.sent)
		began := time.Now()
		push(name, id)
		answered := time.Now()
		select {
		case got := <-arrivals:
			require.Equal(f.T, id, got.id)
			fromStart.Add(got.at.Sub(began))
			fromAnswer.Add(max(0, got.at.Sub(answered)))
		case <-consumer.Context.Done():
			require.NoError(f.T, consumer.Stop())
			require.FailNow(f.T, "a message did not arrive")
		}
	}
	require.NoError(f.T, consumer.Stop())
	// With autoAck, a request that still waits would consume the next message.
	require.NoError(f.T, f.Server.WaitWaiting(f.Ctx, 0))
	return fromStart, fromAnswer
}

func TestInsertToWaitingConsumer(t *testing.T) {
	f := newFixture(t)
	f.timeDeliveries("w", 10, f.insert) // fills caches
	fromStart, fromAnswer := f.timeDeliveries("w", *samples, f.insert)
	t.Logf("from the answer to the INSERT: p50 %s, p99 %s; from the start of the INSERT: p50 %s, p99 %s; %d samples",
		quantile(fromAnswer, 0.5), quantile(fromAnswer, 0.99), quantile(fromStart, 0.5), quantile(fromStart, 0.99), *samples)
	f.target(quantile(fromAnswer, 0.5) <= 4*time.Millisecond && quantile(fromAnswer, 0.99) <= 15*time.Millisecond, "p50 4ms and p99 15ms")
}

// TestOpenTransactionDelaysNoMessage leaves a transaction open that has written to the partition of the messages.
func TestOpenTransactionDelaysNoMessage(t *testing.T) {
	f := newFixture(t)
	f.timeDeliveries("w", 10, f.insert)
	_, without := f.timeDeliveries("w", *samples, f.insert)
	holder := f.Connect()
	tx, err := holder.Begin(f.Ctx)
	require.NoError(t, err)
	_, err = tx.Exec(f.Ctx, `INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ('w', '1', 'late')`)
	require.NoError(t, err)
	with := load.NewTimes()
	for began := time.Now(); time.Since(began) < *open; {
		_, more := f.timeDeliveries("w", *samples, f.insert)
		with.Merge(more)
	}
	// Vacuum cannot remove these rows while the transaction is open.
	f.Exec(`INSERT INTO belfry.inbox (queue, payload) SELECT 'other', '1' FROM generate_series(1, $1::int)`, *rows)
	f.waitSequenced()
	_, after := f.timeDeliveries("w", *samples, f.insert)
	pushed, _ := f.timeDeliveries("w", *samples, f.push)
	t.Logf("p50 %s, p99 %s without; p50 %s, p99 %s with a transaction open for %s; p50 %s, p99 %s with %d dead rows; "+
		"with the dead rows and over HTTP, from the start of the push: p50 %s, p99 %s",
		quantile(without, 0.5), quantile(without, 0.99), quantile(with, 0.5), quantile(with, 0.99), *open,
		quantile(after, 0.5), quantile(after, 0.99), *rows, quantile(pushed, 0.5), quantile(pushed, 0.99))
	f.target(ratio(with, without) <= 2, "p99 with an open transaction at most 2 times the p99 without it")
	require.Less(t, quantile(with, 0.5), 20*quantile(without, 0.5), "an open transaction must not delay messages")
	require.Less(t, quantile(after, 0.5), 20*quantile(without, 0.5), "dead rows must not delay messages")
	require.NoError(t, tx.Commit(f.Ctx))
	f.waitSequenced()
	require.Equal(t, int64(1), f.Number("SELECT count(*) FROM belfry.message WHERE transaction_id = 'late'"))
}

func TestCopy(t *testing.T) {
	f := newFixture(t)
	f.timeDeliveries("w", 1, f.insert)
	before := f.Number("SELECT count(*) FROM belfry.message")
	began := time.Now()
	_, err := f.Conn.CopyFrom(f.Ctx, pgx.Identifier{"belfry", "inbox"}, []string{"queue", "partition", "payload"},
		pgx.CopyFromSlice(*rows, func(i int) ([]any, error) {
			return []any{"bulk", fmt.Sprintf("p%d", i%100), fmt.Sprintf(`{"n":%d}`, i)}, nil
		}))
	require.NoError(t, err)
	copying := time.Since(began)
	committed := stopwatch.Start(t)
	f.waitSequenced()
	took := committed.Elapsed()
	rate := float64(*rows) / took.Seconds()
	t.Logf("COPY of %d rows took %s; sequenced %s after its commit: %.0f rows/s",
		*rows, copying.Round(time.Millisecond), took.Round(time.Millisecond), rate)
	f.target(rate >= 30_000, "30,000 rows/s")
	committed.Within(t, 50*copying, "the sequencer must take at most 50 times the time of the COPY")
	require.Equal(t, int64(*rows), f.Number("SELECT count(*) FROM belfry.message")-before)
	require.Zero(t, f.Number(`SELECT count(*) FROM (
		SELECT (m.payload->>'n')::int AS n, lag((m.payload->>'n')::int) OVER (PARTITION BY m.partition_id ORDER BY m.seq) AS before
		  FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id
		 WHERE q.name = 'bulk') AS o WHERE o.n <= o.before`), "no message may be out of order")
}
