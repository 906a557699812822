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

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

// maxBaseline is the longest duration of a baseline.
const maxBaseline = 10 * time.Second

// sqlBaselineTable creates a table with the columns of a message and one unique index.
const sqlBaselineTable = `
CREATE TABLE %s (
    partition_id bigint NOT NULL, seq bigint NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
    visible_at timestamptz, id uuid NOT NULL, trace_id uuid, encrypted boolean NOT NULL DEFAULT false,
    transaction_id text NOT NULL, producer_sub text, payload json NOT NULL, UNIQUE (partition_id, transaction_id))`

// sqlBaselineInsert is a plain INSERT of many rows: one statement per batch.
const sqlBaselineInsert = `
INSERT INTO %s (partition_id, seq, id, transaction_id, payload)
SELECT i.partition_id, i.seq, i.id, i.transaction_id, i.payload::json
  FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[], $5::text[])
       AS i(partition_id, seq, id, transaction_id, payload)`

// Baseline is the speed of plain INSERTs into the database.
type Baseline struct {
	Connections int          `json:"connections"`
	Batch       int          `json:"batch"`
	Rate        float64      `json:"rate"`
	Insert      load.Latency `json:"insert"`
	// Ratio is the rate of the run divided by Rate. For one message at a time, it is the median
	// time of a message divided by that of an INSERT.
	Ratio float64 `json:"ratio"`
	// Of describes the ratio.
	Of string `json:"of"`
}

// measureBaseline inserts into a new table with the connections and the batch of the scenario, and
// drops the table.
func measureBaseline(ctx context.Context, s Settings, single bool) (b Baseline, err error) {
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
	// An interrupt does not keep the table.
	lasting := context.WithoutCancel(ctx)
	defer func() {
		_, dropping := admin.Exec(lasting, "DROP TABLE IF EXISTS "+table)
		err = errors.Join(err, dropping, admin.Close(lasting))
	}()
	if _, err := admin.Exec(ctx, fmt.Sprintf(sqlBaselineTable, table)); err != nil {
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
	return b, b.measure(ctx, s, fmt.Sprintf(sqlBaselineInsert, table), conns)
}

// measure inserts until the duration is over or an INSERT fails.
func (b *Baseline) measure(ctx context.Context, s Settings, insert string, conns []*pgx.Conn) error {
	times := load.NewTimes()
	var rows atomic.Int64
	start := time.Now()
	end := start.Add(min(s.Duration, maxBaseline))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for worker, conn := range conns {
		workers.Go(func() {
			for turn := 0; ctx.Err() == nil && time.Now().Before(end); turn++ {
				args := baselineRows(s, b.Batch, worker, turn)
				began := time.Now()
				if _, err := conn.Exec(ctx, insert, args...); err != nil {
					cancel(fmt.Errorf("inserting for the baseline: %w", err))
					return
				}
				times.Add(time.Since(began))
				rows.Add(int64(b.Batch))
			}
		})
	}
	workers.Wait()
	b.Rate = float64(rows.Load()) / time.Since(start).Seconds()
	b.Insert = times.Latency("insert")
	return context.Cause(ctx)
}

// baselineRows returns the arguments of one INSERT.
func baselineRows(s Settings, batch, worker, turn int) []any {
	partitions, seqs, ids := make([]int64, batch), make([]int64, batch), make([]uuid.UUID, batch)
	transactions, payloads := make([]string, batch), make([]string, batch)
	for i := range batch {
		n := turn*batch + i
		partitions[i], seqs[i] = int64((worker+n)%s.Partitions), int64(n)
		ids[i], transactions[i] = uuid.Must(uuid.NewV7()), uuid.NewString()
		payloads[i] = string(load.AppendPayload(nil, load.Ref{Lane: worker, N: n}, s.Payload))
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
	b.Of = "p50 of " + load.TimeFromStart + " to p50 of an INSERT"
	for _, l := range r.Latencies {
		if l.Of == load.TimeFromStart && b.Insert.P50 > 0 {
			b.Ratio = l.P50 / b.Insert.P50
		}
	}
}
