package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

// waitBackoff is the delay between two attempts to reach the database.
var waitBackoff = backoff.Policy{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Threshold: 1, Multiplier: 2}

// Wait blocks until the database answers, and then returns nil. It returns an error when timeout has passed, when ctx ends, or at
// once if waiting cannot help, for example with a wrong password. Such an error is not Retryable. Wait logs each failed attempt.
func (p *Pool) Wait(ctx context.Context, timeout time.Duration, log *zap.Logger) error {
	deadline, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	timeout = timeout.Round(time.Millisecond) // for the error texts
	where := fmt.Sprintf("%s:%d", p.Config().ConnConfig.Host, p.Config().ConnConfig.Port)
	started := time.Now()
	var last *Problem
	for attempt := 1; ; attempt++ {
		err := p.Ping(deadline)
		if err == nil {
			err = checkWritable(deadline, p)
		}
		if err == nil {
			if p.TransactionPooled() {
				log.Warn("found a pooler in transaction mode behind database.url: statements are prepared each time and plans are not pinned, " +
					"which costs speed; use a pooler in session mode, or none")
			}
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the database at %s: %w", where, ctx.Err())
		}
		if settings := (*settingsError)(nil); errors.As(err, &settings) {
			return settings
		}
		problem := ConnectProblem(p.Config().ConnConfig, "database.url", err)
		if deadline.Err() == nil {
			last = problem // an attempt that the deadline cuts off has no Problem
		}
		switch {
		case problem != nil && !problem.passes:
			return problem
		case problem == nil && !isTemporary(err):
			return fmt.Errorf("connecting to the database at %s: %w; check database.url", where, err)
		case deadline.Err() != nil && last != nil:
			return fmt.Errorf("after %s (database.start_timeout): %w", timeout, last)
		case deadline.Err() != nil:
			return &Problem{cause: err, text: fmt.Sprintf("the database at %s did not answer within %s (database.start_timeout): "+
				"start it, or correct database.url: %v", where, timeout, err)}
		}
		log.Info("waiting for the database", zap.String("address", where), zap.Error(err),
			zap.Duration("waited", time.Since(started).Round(time.Millisecond)), zap.Duration("giving_up_after", timeout))
		_ = backoff.Sleep(deadline, waitBackoff.Delay(attempt, rand.Float64())) // the next ping notices the end of the context
	}
}

// isTemporary reports whether waiting can help: the connection is refused, or the database is
// unreachable, starting or shutting down. A wrong password or database name is permanent.
func isTemporary(err error) bool {
	state := SQLState(err)
	switch state {
	case "", "57P03", "57P01", "57P02", sqlstateTooMany:
		return true
	default:
		return strings.HasPrefix(state, "08") // for example, PgBouncer returns 08P01 if its Postgres is unreachable
	}
}
