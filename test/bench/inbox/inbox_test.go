package inbox

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// insert pushes by a plain insert.
func (r *rig) insert(queue, id string) {
	r.t.Helper()
	r.exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ($1, '{"hello": "world"}', $2)`, queue, id)
}

// push pushes over HTTP.
func (r *rig) push(queue, id string) {
	r.t.Helper()
	_, err := r.call(r.ctx, http.MethodPost, "/api/v1/push",
		`{"items":[{"queue":"`+queue+`","transactionId":"`+id+`","payload":{"hello": "world"}}]}`)
	require.NoError(r.t, err)
}

// way times messages until the response at a consumer that waits, from the beginning
// of the push and from the answer to it.
func (r *rig) way(name string, n int, push func(queue, id string)) (begun, committed []time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	arrivals, ended := make(chan arrival, 1), make(chan error, 1)
	go func() { ended <- r.consume(ctx, name, arrivals) }()
	for range n {
		r.waiting(1)
		r.sent++
		id := fmt.Sprint(r.sent)
		began := time.Now()
		push(name, id)
		answered := time.Now()
		select {
		case got := <-arrivals:
			require.Equal(r.t, id, got.id)
			begun, committed = append(begun, got.at.Sub(began)), append(committed, max(0, got.at.Sub(answered)))
		case err := <-ended:
			require.NoError(r.t, err)
		case <-r.ctx.Done():
			require.FailNow(r.t, "a message did not arrive")
		}
	}
	cancel()
	require.NoError(r.t, <-ended)
	r.waiting(0) // with autoAck, whoever has left takes messages along
	return begun, committed
}

func TestInsertToWaitingConsumer(t *testing.T) {
	r := newRig(t)
	r.way("w", 10, r.insert) // warms up
	begun, committed := r.way("w", *samples, r.insert)
	t.Logf("from the answer to the commit: p50 %s, p99 %s; from the beginning of the insert: p50 %s, p99 %s; %d samples",
		quantile(committed, 50), quantile(committed, 99), quantile(begun, 50), quantile(begun, 99), *samples)
	r.promised(quantile(committed, 50) <= 4*time.Millisecond && quantile(committed, 99) <= 15*time.Millisecond, "p50 4ms and p99 15ms")
}

// A transaction that has written to the partition stays open meanwhile.
func TestOpenTransactionHoldsNothingUp(t *testing.T) {
	r := newRig(t)
	r.way("w", 10, r.insert)
	_, without := r.way("w", *samples, r.insert)
	holder := r.connect()
	tx, err := holder.Begin(r.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(r.ctx, `INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ('w', '1', 'late')`)
	require.NoError(t, err)
	var with []time.Duration
	for began := time.Now(); time.Since(began) < *open; {
		_, more := r.way("w", *samples, r.insert)
		with = append(with, more...)
	}
	// Much goes through the inbox meanwhile, and cannot be vacuumed.
	r.exec(`INSERT INTO belfry.inbox (queue, payload) SELECT 'other', '1' FROM generate_series(1, $1::int)`, *rows)
	r.drained()
	_, after := r.way("w", *samples, r.insert)
	pushed, _ := r.way("w", *samples, r.push)
	t.Logf("p50 %s, p99 %s without; p50 %s, p99 %s with a transaction open for %s; p50 %s, p99 %s behind %d dead rows; "+
		"there and over HTTP, from the beginning of the push, p50 %s, p99 %s",
		quantile(without, 50), quantile(without, 99), quantile(with, 50), quantile(with, 99), *open,
		quantile(after, 50), quantile(after, 99), *rows, quantile(pushed, 50), quantile(pushed, 99))
	r.promised(times(with, without) <= 2, "p99 beside an open transaction at most 2 times the one without")
	require.Less(t, quantile(with, 50), 20*quantile(without, 50), "an open transaction delays nobody")
	require.Less(t, quantile(after, 50), 20*quantile(without, 50), "nor do the rows that it keeps")
	require.NoError(t, tx.Commit(r.ctx))
	r.drained()
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.message WHERE transaction_id = 'late'"))
}

func TestCopy(t *testing.T) {
	r := newRig(t)
	r.way("w", 1, r.insert)
	before := r.number("SELECT count(*) FROM belfry.message")
	began := time.Now()
	_, err := r.conn.CopyFrom(r.ctx, pgx.Identifier{"belfry", "inbox"}, []string{"queue", "partition", "payload"},
		pgx.CopyFromSlice(*rows, func(i int) ([]any, error) {
			return []any{"bulk", fmt.Sprintf("p%d", i%100), fmt.Sprintf(`{"n":%d}`, i)}, nil
		}))
	require.NoError(t, err)
	committed := time.Now()
	r.drained()
	took := time.Since(committed)
	rate := float64(*rows) / took.Seconds()
	t.Logf("COPY of %d rows took %s; sequenced %s after its commit: %.0f rows/s",
		*rows, committed.Sub(began).Round(time.Millisecond), took.Round(time.Millisecond), rate)
	r.promised(rate >= 30_000, "30,000 rows/s")
	require.Less(t, took, 50*committed.Sub(began), "what is copied is sequenced about as fast")
	require.Equal(t, int64(*rows), r.number("SELECT count(*) FROM belfry.message")-before)
	require.Zero(t, r.number(`SELECT count(*) FROM (
		SELECT (m.payload->>'n')::int AS n, lag((m.payload->>'n')::int) OVER (PARTITION BY m.partition_id ORDER BY m.seq) AS before
		  FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id
		 WHERE q.name = 'bulk') AS o WHERE o.n <= o.before`), "out of order")
}
