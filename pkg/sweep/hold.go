package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// holdFor is how long a run is held without a sign of life.
	holdFor = 30 * time.Second
	// holdAgain is after how long the hold is prolonged.
	holdAgain = holdFor / 6
	// early is how much before the end of an interval the next run is due, so that
	// clocks which drift a little do not skip one.
	early = 0.9
)

var (
	sqlTake = sql.Query("sweep/take")
	sqlHold = sql.Query("sweep/hold")
	sqlDone = sql.Query("sweep/done")
)

// errLost ends a run that another instance has taken over.
var errLost = errors.New("another instance took the sweep over")

// hold is a run of a job that this instance has.
type hold struct {
	s     *Sweeper
	job   string
	id    queue.ID
	since time.Time
}

// take returns nil when the job is not due or another instance has it.
func (s *Sweeper) take(ctx context.Context, j job) (*hold, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	h := &hold{s: s, job: j.name, id: queue.NewID(), since: time.Now()}
	var name string
	err := s.pool.QueryRow(ctx, sqlTake, j.name, [16]byte(h.id), holdFor.Seconds(), early*j.every.Seconds()).Scan(&name)
	switch {
	case postgres.IsNoRows(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("taking the sweep %s: %w", j.name, err)
	}
	return h, nil
}

// on prolongs the hold when that is due. Called between two rounds of work.
func (h *hold) on(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Since(h.since) < holdAgain {
		return nil
	}
	ctx, cancel := h.s.pool.Bounded(ctx)
	defer cancel()
	var name string
	err := h.s.pool.QueryRow(ctx, sqlHold, h.job, [16]byte(h.id), holdFor.Seconds()).Scan(&name)
	switch {
	case postgres.IsNoRows(err):
		return errLost
	case err != nil:
		return fmt.Errorf("holding the sweep %s: %w", h.job, err)
	}
	h.since = time.Now()
	return nil
}

// done lets go.
func (h *hold) done(ctx context.Context) error {
	ctx, cancel := h.s.pool.Bounded(ctx)
	defer cancel()
	if _, err := h.s.pool.Exec(ctx, sqlDone, h.job, [16]byte(h.id)); err != nil {
		return fmt.Errorf("letting go of the sweep %s: %w", h.job, err)
	}
	return nil
}
