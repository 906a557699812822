package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlPreflight = sql.Query("engine/store/preflight")

// SetTimeout is the statement before each preflight. $1 is the timeout in milliseconds.
const SetTimeout = "SELECT set_config('statement_timeout', $1, true)"

// Preflight probes for many waiting pops with one read-only query; see Store.Preflight. Postgres
// cancels the query after limit, so a timeout does not break the connection.
func (c *Claimer) Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error) {
	ctx, cancel := c.Pool.Bounded(ctx)
	defer cancel()
	groups, partitions, wants := make([]int64, len(probes)), make([]int64, len(probes)), make([]int64, len(probes))
	epochs, scans := make([]int64, len(probes)), make([]scanfloor.Scan, len(probes))
	due, next := make([]pgtype.Timestamptz, len(probes)), make([]pgtype.Timestamptz, len(probes))
	for i, p := range probes {
		groups[i], partitions[i], wants[i], epochs[i] = p.Target.Group, p.Target.Partition, int64(p.Want), int64(p.Target.Epoch)
		if p.Target.Partition == 0 {
			scans[i] = c.Floors.Begin(p.Target.Group)
		}
		due[i], next[i] = orBeginning(scans[i].Due), orBeginning(scans[i].Next)
	}
	found, seen := make([]queue.ProbeResult, len(probes)), make([]scanfloor.Observation, len(probes))
	b := &pgx.Batch{}
	b.Queue(SetTimeout, fmt.Sprint(limit.Milliseconds()))
	b.Queue(sqlPreflight, groups, partitions, wants, due, next, epochs)
	err := c.urgent(ctx, b, func(results pgx.BatchResults) error {
		if err := pipeline.Skip(results, "setting the time limit"); err != nil {
			return err
		}
		return readProbes(results, found, seen)
	})
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("probing %d targets: %w", len(probes), err))
	}
	for i, p := range probes {
		if p.Target.Partition == 0 && !found[i].Gone && !seen[i].Now.IsZero() {
			c.Floors.Learn(p.Target.Group, scans[i], seen[i])
		}
	}
	return found, nil
}

// orBeginning returns instant, or -infinity if instant is not valid.
func orBeginning(instant pgtype.Timestamptz) pgtype.Timestamptz {
	if !instant.Valid {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return instant
}

// readProbes reads the rows of preflight.sql.
func readProbes(results pgx.BatchResults, found []queue.ProbeResult, seen []scanfloor.Observation) error {
	var ord int64
	var exists bool
	var partition, depth pgtype.Int8
	var seconds, lease, limited pgtype.Float8
	var now time.Time
	var c queue.Candidate
	columns := []any{&ord, &exists, &partition, &seconds, &depth, &c.Leased, &c.WindowOpen, &c.Paused, &lease, &now, &limited}
	return pipeline.ForEach(results, "reading the probes", columns, func() error {
		f, o := &found[ord-1], &seen[ord-1]
		f.Gone, f.Limited, f.LimitedIn = !exists, limited.Valid, wake.Seconds(limited.Float64)
		if o.Now.IsZero() {
			// An uncommitted transaction may have leased a cursor that the preflight sees as due. So Next
			// is not later than the end of a lease that begins now.
			*o = scanfloor.Observation{Now: now, Due: now, Next: now.Add(wake.Seconds(lease.Float64) - scanfloor.Margin)}
		}
		if partition.Valid {
			c.Partition, c.Depth, c.In = partition.Int64, depth.Int64, wake.Seconds(seconds.Float64)
			f.Candidates = append(f.Candidates, c)
			if at := now.Add(c.In); c.In <= 0 && at.Before(o.Due) {
				o.Due = at
			} else if c.In > 0 && at.Before(o.Next) {
				o.Next = at
			}
		}
		return nil
	})
}
