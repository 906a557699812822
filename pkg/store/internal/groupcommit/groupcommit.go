// Package groupcommit decides what group commit (pkg/batch) does with a failed flush, gives errors
// their codes, and measures flushes. It is imported by pkg/store and the other rooms below it.
package groupcommit

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// unknownOutcome says that a COMMIT was sent and its answer never came.
type unknownOutcome struct{ error }

func (e unknownOutcome) Unwrap() error { return e.error }

// CommitError marks the error of a COMMIT that must not be repeated. An error that the database sent
// stays as it is, because the transaction did not happen, and so does the error of a pipeline that was
// not sent. After any other error the outcome is unknown, and judge makes the flush fail.
func CommitError(err error) error {
	var refused *pgconn.PgError
	if err == nil || errors.As(err, &refused) || pgconn.SafeToRetry(err) {
		return err
	}
	return unknownOutcome{err}
}

// judge says what becomes of a flush that failed. The database refuses a bad value each time, so the
// flush is split until the call with the value fails alone. A deadlock or a lost connection passes,
// so the flush is sent again. Time-outs and a full disk concern all callers, so all of them fail.
func judge(err error) batch.Verdict {
	var unknown unknownOutcome
	var coded *queue.Error
	switch {
	case errors.As(err, &unknown), errors.Is(err, context.DeadlineExceeded):
		return batch.Fail
	case postgres.Retryable(err):
		return batch.Retry
	case postgres.SQLState(err) == postgres.PartitionGone:
		return batch.Split // only for the calls that push to it
	case errors.As(postgres.Wrap(err), &coded) && coded.Code == queue.CodeUnavailable:
		return batch.Fail
	default:
		return batch.Split
	}
}

// Wrap gives the error of a batched operation its code.
func Wrap(err error) error {
	var panicked *batch.PanicError
	switch {
	case errors.Is(err, batch.ErrClosed):
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter, Err: err,
			Message: "the server is stopping; send the request again, to another instance",
		}
	case errors.Is(err, batch.ErrWithdrawn):
		return &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: postgres.RetryAfter, Err: err,
			Message: "the database does not keep up with what is waiting (batch.queue_size); nothing was done: send the request again",
		}
	case errors.As(err, &panicked):
		return &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: err}
	default:
		return postgres.Wrap(err)
	}
}
