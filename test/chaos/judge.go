package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/workload"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

const (
	// wakeBound is the maximum time that a waiting consumer may miss a ready message while there is no fault. A wake
	// takes milliseconds. The bound is higher, because the machine may be busy.
	wakeBound = 2 * time.Second
	// longestLease is the maximum lease time after an extend, plus 1 s for the request.
	longestLease = workload.LeaseTime + 2*time.Second
)

// evidence is the result of a run. The database is idle and drained.
type evidence struct {
	operations []history.Operation
	windows    []window
	samples    []check.Sample
	queues     []string
	reads      []workload.Read
	database   *pgxpool.Pool
	began      time.Time // start of the run on the wall clock
}

// judgeFunc returns the broken rules as an error, or nil.
type judgeFunc func(ctx context.Context, e evidence) error

// brokenError has the violations of a run.
type brokenError struct{ violations []check.Violation }

func (e *brokenError) Error() string {
	lines := make([]string, len(e.violations))
	for i, v := range e.violations {
		lines[i] = v.String()
	}
	return strings.Join(lines, "\n")
}

// judge checks all rules. For waits that overlap a fault or its recovery, it adds the excuse of the fault to the
// bound, but at most the duration of the fault with its recovery.
func judge(ctx context.Context, e evidence) error {
	state, err := readState(ctx, e)
	if err != nil {
		return err
	}
	options := check.Options{WakeBound: wakeBound, LeaseDuration: longestLease, IdleAfter: world.IdleAfter}
	for _, w := range e.windows {
		options.Windows = append(options.Windows, w.judged())
	}
	if violations := check.Run(e.operations, state, options); len(violations) > 0 {
		return &brokenError{violations}
	}
	return nil
}

// readState reads the tables in one snapshot, because sweeps continue to change them.
func readState(ctx context.Context, e evidence) (state check.State, err error) {
	tx, err := e.database.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return check.State{}, fmt.Errorf("reading the tables: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
	if state, err = check.ReadState(ctx, tx, e.queues); err != nil {
		return check.State{}, err
	}
	state.Samples = e.samples
	if err := check.ReadDeletions(ctx, tx, e.queues, &state); err != nil {
		return check.State{}, err
	}
	state.LeasePeriods, state.Moves, err = check.ReadLeasePeriods(ctx, tx, e.queues, e.began)
	return state, err
}

// remaining returns the number of messages that groups have not finished, plus the messages without groups in queues
// with maxWaitTimeSeconds.
func remaining(ctx context.Context, database *pgxpool.Pool, reads []workload.Read) (left int64, err error) {
	queues, groups := make([]string, len(reads)), make([]string, len(reads))
	for i, read := range reads {
		queues[i], groups[i] = read.Queue, read.Group
	}
	err = database.QueryRow(ctx, `
		SELECT coalesce(sum(p.last_seq - coalesce(c.committed, 0) + coalesce(c.redrives, 0)), 0)::bigint + (SELECT count(*) FROM belfry.inbox)
		       + (SELECT count(*) FROM belfry.queue q
		            JOIN belfry.partition p ON p.queue_id = q.id
		            JOIN belfry.message m ON m.partition_id = p.id
		           WHERE q.deleted_at IS NULL AND q.max_wait_time_seconds > 0
		             AND NOT EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.queue_id = q.id))
		  FROM unnest($1::text[], $2::text[]) AS wanted(queue, name)
		  JOIN belfry.queue q ON q.name = wanted.queue AND q.deleted_at IS NULL
		  JOIN belfry.partition p ON p.queue_id = q.id
		  LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = wanted.name
		  LEFT JOIN belfry.cursor c ON c.partition_id = p.id AND c.group_id = g.id`, queues, groups).Scan(&left)
	if err != nil {
		return 0, fmt.Errorf("counting the remaining messages: %w", err)
	}
	return left, nil
}
