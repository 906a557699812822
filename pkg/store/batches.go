package store

import (
	"context"
	"errors"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// unknownError says that a COMMIT was sent and its outcome never came.
type unknownError struct{ error }

func (e unknownError) Unwrap() error { return e.error }

// judge says what becomes of a flush that failed. A value that the database
// refused is refused again, so the batch is split until the culprit fails alone.
// A deadlock or a lost connection passes. Time that ran out is gone for the
// callers too, and a full disk is full for each of them.
func judge(err error) batch.Verdict {
	var unknown unknownError
	var coded *queue.Error
	switch {
	case errors.As(err, &unknown), errors.Is(err, context.DeadlineExceeded):
		return batch.Fail
	case postgres.Retryable(err):
		return batch.Retry
	case postgres.SQLState(err) == postgres.PartitionGone:
		return batch.Split // it is gone for those who push to it
	case errors.As(postgres.Wrap(err), &coded) && coded.Code == queue.CodeUnavailable:
		return batch.Fail
	default:
		return batch.Split
	}
}

// wrapBatched gives the error of a batched operation its code.
func wrapBatched(err error) error {
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

// Close answers what has been accepted and refuses the rest, until ctx ends.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.pushes.Close(ctx), s.acks.Close(ctx), s.leases.Close(ctx), s.takes.Close(ctx), s.transactions.Close(ctx),
		s.held.Close(ctx))
}
