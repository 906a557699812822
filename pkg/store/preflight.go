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
func (s *Store) Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	groups, partitions, wants := make([]int64, len(probes)), make([]int64, len(probes)), make([]int64, len(probes))
	lives := make([]int64, len(probes))
	views, dues, nexts := make([]view, len(probes)), make([]pgtype.Timestamptz, len(probes)), make([]pgtype.Timestamptz, len(probes))
	for i, p := range probes {
		groups[i], partitions[i], wants[i], lives[i] = p.Target.Group, p.Target.Partition, int64(p.Want), int64(p.Target.Epoch)
		if p.Target.Partition == 0 {
			views[i] = s.floors.begin(p.Target.Group)
		}
		dues[i], nexts[i] = orAnytime(views[i].due), orAnytime(views[i].next)
	}
	findings, seen := make([]queue.ProbeResult, len(probes)), make([]found, len(probes))
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('statement_timeout', $1, true)", fmt.Sprint(limit.Milliseconds()))
	b.Queue(sqlPreflight, groups, partitions, wants, dues, nexts, lives)
	err := s.urgentBatch(ctx, b, func(results pgx.BatchResults) error {
		if err := skip(results, "setting the limit"); err != nil {
			return err
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		return readFindings(rows, findings, seen)
	})
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("looking for %d waiting targets: %w", len(probes), err))
	}
	for i, p := range probes {
		if p.Target.Partition == 0 && !findings[i].Gone && !seen[i].now.IsZero() {
			s.floors.learn(p.Target.Group, views[i], seen[i])
		}
	}
	return findings, nil
}

// orAnytime turns an unknown instant into one before all.
func orAnytime(at pgtype.Timestamptz) pgtype.Timestamptz {
	if !at.Valid {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return at
}

func readFindings(rows pgx.Rows, findings []queue.ProbeResult, seen []found) error {
	var place int64
	var exists bool
	var partition, depth pgtype.Int8
	var seconds, lease pgtype.Float8
	var now time.Time
	var c queue.Candidate
	_, err := pgx.ForEachRow(rows, []any{&place, &exists, &partition, &seconds, &depth, &c.Leased, &c.WindowOpen, &c.Paused, &lease, &now}, func() error {
		f := &findings[place-1]
		f.Gone = !exists
		look := &seen[place-1]
		if look.now.IsZero() {
			// Not later than a lease that somebody has taken, but not committed yet:
			// what is due here may be held by it.
			*look = found{now: now, due: now, next: now.Add(inSeconds(lease.Float64) - floorMargin)}
		}
		if partition.Valid {
			one := c
			one.Partition, one.Depth, one.In = partition.Int64, depth.Int64, inSeconds(seconds.Float64)
			f.Candidates = append(f.Candidates, one)
			if at := now.Add(one.In); one.In <= 0 && at.Before(look.due) {
				look.due = at
			} else if one.In > 0 && at.Before(look.next) {
				look.next = at
			}
		}
		return nil
	})
	return err
}
