package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ReadAll reads what Run needs about some queues, after Watch has recorded since the instant began. It reads the tables in one
// snapshot, because sweeps continue to change them. samples are results of ReadSamples during the run.
func ReadAll(ctx context.Context, database *pgxpool.Pool, queues []string, samples []Sample, began time.Time) (state State, err error) {
	tx, err := database.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return State{}, fmt.Errorf("reading the tables: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
	if state, err = ReadState(ctx, tx, queues); err != nil {
		return State{}, err
	}
	state.Samples = samples
	if err := ReadDeletions(ctx, tx, queues, &state); err != nil {
		return State{}, err
	}
	state.LeasePeriods, state.Moves, err = ReadLeasePeriods(ctx, tx, queues, began)
	return state, err
}
