package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// baselineTime is the longest a baseline takes.
const baselineTime = 10 * time.Second

// scratch has the columns of a message and one unique index.
const scratch = `
CREATE TABLE %s (
    partition_id bigint NOT NULL, seq bigint NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
    visible_at timestamptz, id uuid NOT NULL, trace_id uuid, encrypted boolean NOT NULL DEFAULT false,
    transaction_id text NOT NULL, producer_sub text, payload json NOT NULL, UNIQUE (partition_id, transaction_id))`

// scratchInsert is the plainest INSERT of many rows: one statement a batch.
const scratchInsert = `
INSERT INTO %s (partition_id, seq, id, transaction_id, payload)
SELECT i.partition_id, i.seq, i.id, i.transaction_id, i.payload::json
  FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[], $5::text[])
       AS i(partition_id, seq, id, transaction_id, payload)`

// Baseline is what the database does by itself.
type Baseline struct {
	Connections int     `json:"connections"`
	Batch       int     `json:"batch"`
	Rate        float64 `json:"rate"`
	Insert      Latency `json:"insert"`
	// Ratio is the rate of the run to Rate; of a scenario about one message, the
	// median time of it to that of an INSERT.
	Ratio float64 `json:"ratio"`
	// Of says which ratio it is.
	Of string `json:"of"`
}

// baseline inserts into a table of its own with as many connections and rows as
// the scenario has, and drops the table.
func baseline(ctx context.Context, s Settings, single bool) (b Baseline, err error) {
	b = Baseline{Connections: s.Connections, Batch: s.Batch}
	if s.BaselineConnections > 0 {
		b.Connections = s.BaselineConnections
	}
	if single {
		b.Connections, b.Batch = 1, 1
	}
	table := "bench_" + uuid.NewString()[:8]
	admin, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return b, fmt.Errorf("connecting to the database for the baseline: %w", err)
	}
	// The table is dropped also after an interrupt.
	lasting := context.WithoutCancel(ctx)
	defer func() {
		_, dropping := admin.Exec(lasting, "DROP TABLE IF EXISTS "+table)
		err = errors.Join(err, dropping, admin.Close(lasting))
	}()
	if _, err := admin.Exec(ctx, fmt.Sprintf(scratch, table)); err != nil {
		return b, fmt.Errorf("making a table for the baseline: %w", err)
	}
	conns := make([]*pgx.Conn, b.Connections)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				err = errors.Join(err, conn.Close(lasting))
			}
		}
	}()
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, s.DatabaseURL); err != nil {
			return b, fmt.Errorf("connecting to the database for the baseline, connection %d of %d: %w", i+1, len(conns), err)
		}
	}
	return b, b.measure(ctx, s, fmt.Sprintf(scratchInsert, table), conns)
}

func (b *Baseline) measure(ctx context.Context, s Settings, insert string, conns []*pgx.Conn) error {
	times := newTiming()
	var rows atomic.Int64
	start := time.Now()
	end := start.Add(min(s.Duration, baselineTime))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var crew sync.WaitGroup
	for worker, conn := range conns {
		crew.Go(func() {
			for turn := 0; ctx.Err() == nil && time.Now().Before(end); turn++ {
				args := scratchRows(s, b.Batch, worker, turn)
				began := time.Now()
				if _, err := conn.Exec(ctx, insert, args...); err != nil {
					cancel(fmt.Errorf("inserting for the baseline: %w", err))
					return
				}
				times.add(time.Since(began))
				rows.Add(int64(b.Batch))
			}
		})
	}
	crew.Wait()
	b.Rate = float64(rows.Load()) / time.Since(start).Seconds()
	b.Insert = times.latency("insert")
	return context.Cause(ctx)
}

// scratchRows makes the arguments of one INSERT.
func scratchRows(s Settings, batch, worker, turn int) []any {
	partitions, seqs, ids := make([]int64, batch), make([]int64, batch), make([]uuid.UUID, batch)
	transactions, payloads := make([]string, batch), make([]string, batch)
	for i := range batch {
		n := turn*batch + i
		partitions[i], seqs[i] = int64((worker+n)%s.Partitions), int64(n)
		ids[i], transactions[i] = uuid.Must(uuid.NewV7()), uuid.NewString()
		payloads[i] = string(appendPayload(nil, worker, n, s.Payload))
	}
	return []any{partitions, seqs, ids, transactions, payloads}
}

// compare sets the ratio of a run to the baseline.
func (b *Baseline) compare(r *Result, single bool) {
	if !single {
		b.Of = "messages/s to rows/s"
		if b.Rate > 0 {
			b.Ratio = r.Rate / b.Rate
		}
		return
	}
	b.Of = "p50 of " + timeFromStart + " to p50 of an INSERT"
	for _, l := range r.Latencies {
		if l.Of == timeFromStart && b.Insert.P50 > 0 {
			b.Ratio = l.P50 / b.Insert.P50
		}
	}
}
