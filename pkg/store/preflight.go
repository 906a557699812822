package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Preflight looks for many waiting pops with one read-only query. The findings
// are in the order of the probes. limit bounds the query on the server, so that
// the connection survives it.
//
// Errors: CodeUnavailable, also when the limit was exceeded (SQLSTATE 57014).
func (s *Store) Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.Finding, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	groups, partitions, wants := make([]int64, len(probes)), make([]int64, len(probes)), make([]int64, len(probes))
	for i, p := range probes {
		groups[i], partitions[i], wants[i] = p.Target.Group, p.Target.Partition, int64(p.Want)
	}
	findings := make([]queue.Finding, len(probes))
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('statement_timeout', $1, true)", fmt.Sprint(limit.Milliseconds()))
	b.Queue(sqlPreflight, groups, partitions, wants)
	err := s.urgentBatch(ctx, b, func(results pgx.BatchResults) error {
		if err := skip(results, "setting the limit"); err != nil {
			return err
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		return readFindings(rows, findings)
	})
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("looking for %d waiting targets: %w", len(probes), err))
	}
	return findings, nil
}

func readFindings(rows pgx.Rows, findings []queue.Finding) error {
	var place int64
	var exists bool
	var partition, depth pgtype.Int8
	var seconds pgtype.Float8
	var c queue.Candidate
	_, err := pgx.ForEachRow(rows, []any{&place, &exists, &partition, &seconds, &depth, &c.Leased, &c.WindowOpen, &c.Paused}, func() error {
		f := &findings[place-1]
		f.Gone = !exists
		if partition.Valid {
			one := c
			one.Partition, one.Depth, one.In = partition.Int64, depth.Int64, inSeconds(seconds.Float64)
			f.Candidates = append(f.Candidates, one)
		}
		return nil
	})
	return err
}
