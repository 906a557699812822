package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

// maxBaseline is the maximum duration of a baseline.
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

// Baseline is the measured speed of plain INSERTs into the database.
type Baseline struct {
	Connections int          `json:"connections"`
	Batch       int          `json:"batch"`
	Rate        float64      `json:"rate"`
	Insert      load.Latency `json:"insert"`
	// Ratio is the rate of the run divided by Rate. For a run with one message at a time, it is the median time of a
	// message divided by the median time of an INSERT.
	Ratio float64 `json:"ratio"`
	// Of names the two quantities of the ratio.
	Of string `json:"of"`
}

// measureBaseline inserts rows into a new table and drops the table. It uses the connections and the batch size of
// the scenario. If single, it uses one connection and one row per INSERT.
func measureBaseline(ctx context.Context, s Settings, single bool) (b Baseline, err error) {
	b = Baseline{Connections: cmp.Or(s.BaselineConnections, s.Connections), Batch: s.Batch}
	if single {
		b.Connections, b.Batch = 1, 1
	}
	conns, err := connect(ctx, s.DatabaseURL, 1+b.Connections)
	if err != nil {
		return b, fmt.Errorf("preparing the baseline: %w", err)
	}
	table := "bench_" + uuid.NewString()[:8]
	// lasting does not end at an interrupt, so the table is always dropped.
	admin, lasting := conns[0], context.WithoutCancel(ctx)
	defer func() {
		_, dropping := admin.Exec(lasting, "DROP TABLE IF EXISTS "+table)
		err = errors.Join(err, dropping, conns.close())
	}()
	if _, err := admin.Exec(lasting, fmt.Sprintf(sqlBaselineTable, table)); err != nil {
		return b, fmt.Errorf("making a table for the baseline: %w", err)
	}
	return b, b.measure(ctx, s, fmt.Sprintf(sqlBaselineInsert, table), conns[1:])
}

// measure inserts rows until the duration is over or an INSERT fails.
func (b *Baseline) measure(ctx context.Context, s Settings, insert string, conns connections) error {
	times := load.NewTimes()
	start := time.Now()
	end := start.Add(min(s.Duration, maxBaseline))
	workers := load.NewWorkers(ctx)
	for worker, conn := range conns {
		workers.Go(func(ctx context.Context) error {
			for turn := 0; ctx.Err() == nil && time.Now().Before(end); turn++ {
				args := baselineRows(s, b.Batch, worker, turn)
				began := time.Now()
				if _, err := conn.Exec(ctx, insert, args...); err != nil {
					return fmt.Errorf("inserting for the baseline: %w", err)
				}
				times.Add(time.Since(began))
			}
			return nil
		})
	}
	err := workers.Wait()
	b.Insert = times.Latency("insert")
	b.Rate = float64(b.Insert.Count*b.Batch) / time.Since(start).Seconds()
	return err
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
	compared, part, whole := "messages/s to rows/s", r.Rate, b.Rate
	if single {
		compared = "p50 of " + load.TimeFromStart + " to p50 of an INSERT"
		part, whole = r.latency(load.TimeFromStart).P50, b.Insert.P50
	}
	b.Of = compared
	if whole > 0 {
		b.Ratio = part / whole
	}
}
