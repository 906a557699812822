package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"
)

const (
	defaultBatch = 100
	defaultWait  = 30 * time.Second
	defaultLease = time.Minute
	defaultGrace = 30 * time.Second
	// afterError is the pause after a pop that failed because of a message that cannot be read.
	afterError = time.Second
	// afterEmpty is the pause after a pop that was answered without messages earlier than quick.
	afterEmpty = 100 * time.Millisecond
	quick      = 50 * time.Millisecond
)

// ConsumeOptions are the settings of Consume and Messages. Either Queue is set, or Namespace, Task or both. Otherwise
// Consume returns ErrInvalid.
type ConsumeOptions struct {
	Queue string
	// Partition restricts the consumer to one partition of Queue. "" is any partition.
	Partition string
	// Namespace and Task receive from any queue that has both.
	Namespace, Task string
	// Group is the consumer group. Each group receives every message. "" is the reader without a group.
	Group string
	// SubscriptionMode and SubscriptionFrom say where a new group starts; see PopOptions.
	SubscriptionMode, SubscriptionFrom string

	// Concurrency is the number of handlers that run at a time. Each has a pop of its own, and handles the messages of a pop one
	// after the other. 0 is 1. Messages ignores it.
	Concurrency int
	// Batch is the most messages of a pop. 0 is 100. After a crash the messages of a pop that are not acknowledged
	// yet are delivered again.
	Batch int
	// Partitions is the most partitions of a pop. 0 is 1. With many partitions that have few messages each, a higher
	// number saves requests. With slow handlers keep 1, so that other consumers get the other partitions.
	Partitions int
	// Wait is how long a pop waits at the server. 0 is 30 seconds.
	Wait time.Duration
	// Lease is how long a lease lasts after each extension. It is extended after a third of it. 0 is a minute. Messages of a
	// consumer that crashed are delivered again after that time, or after the leaseTime of the queue if that is longer.
	Lease time.Duration
	// Grace is how long handlers may go on when ctx has ended. Then their context ends. 0 is 30 seconds, and a
	// negative value ends it at once.
	Grace time.Duration
}

func (o ConsumeOptions) pop() PopOptions {
	return PopOptions{
		Queue: o.Queue, Partition: o.Partition, Namespace: o.Namespace, Task: o.Task, Group: o.Group,
		Batch: cmp.Or(o.Batch, defaultBatch), Partitions: o.Partitions, Wait: cmp.Or(o.Wait, defaultWait),
		SubscriptionMode: o.SubscriptionMode, SubscriptionFrom: o.SubscriptionFrom,
	}
}

// handled marks the errors of DeadLetter, RetryLater and RetryAfter.
type handled struct {
	status AckStatus
	pause  time.Duration
	error
}

func (h *handled) Unwrap() error { return h.error }

// DeadLetter returns an error with which a handler makes its message a dead letter at once. err is kept with it.
func DeadLetter(err error) error { return decide(DeadLettered, 0, err) }

// RetryLater returns an error after which the message is delivered again a second later, without counting a failure.
func RetryLater(err error) error { return RetryAfter(time.Second, err) }

// RetryAfter is RetryLater with another pause. With 0 the message is delivered again at once.
func RetryAfter(pause time.Duration, err error) error { return decide(Retry, pause, err) }

func decide(status AckStatus, pause time.Duration, err error) error {
	if err == nil {
		err = errors.New("the handler gave no reason")
	}
	return &handled{status, pause, err}
}

// Consume calls handle for each message until ctx ends, and then returns nil:
//
//	err := client.Consume(ctx, c, client.ConsumeOptions{Queue: "orders", Group: "billing"},
//		func(ctx context.Context, m *client.Message[Order]) error { return ship(ctx, m.Data) })
//
// The messages of a partition are handled
// strictly in order, one at a time. Up to Concurrency partitions are handled at a time.
//
// The result of handle decides what happens to the message:
//   - nil: it is completed.
//   - DeadLetter(err): it becomes a dead letter.
//   - RetryLater(err): it is delivered again, with all that follow it in its partition, after a second.
//   - RetryAfter(d, err): the same, after d.
//   - ErrAcknowledged: nothing, because the handler acknowledged it.
//   - any other error, a panic, or a payload that does not fit T: it failed. It is delivered again, with all that follow it in its
//     partition, until the retryLimit of the queue is reached. Then it becomes a dead letter.
//
// The context of handle carries the trace id of the message. It ends when the lease is lost, with the cause
// ErrLeaseLost: the message is delivered again, perhaps already now. It also ends Grace after ctx. Then an error of
// handle counts as RetryAfter(0, err).
//
// When ctx ends, Consume sends no more pops and begins no more messages. It waits for the handlers, acknowledges what is
// done, and releases the rest, which other consumers receive at once. It returns when all handlers have returned and the
// acknowledgments are answered or RetryFor has passed. A handler that ignores its context delays that.
//
// A server that is not available is waited for without a limit. Consume returns an error when the server refuses
// a pop, for example because the token does not permit it.
func Consume[T any](ctx context.Context, c *Client, o ConsumeOptions, handle func(context.Context, *Message[T]) error) error {
	return c.consume(ctx, o, max(1, o.Concurrency), func(ctx context.Context, raw *Raw) error {
		return protect(ctx, c.log, raw, handle)
	})
}

// protect decodes a message and calls handle. A panic is an error.
func protect[T any](ctx context.Context, log *slog.Logger, raw *Raw, handle func(context.Context, *Message[T]) error) (err error) {
	message, err := Decode[T](raw)
	if err != nil {
		return err
	}
	defer func() {
		if value := recover(); value != nil {
			log.ErrorContext(ctx, "a handler panicked", "queue", raw.Queue, "partition", raw.Partition,
				"transaction_id", raw.TransactionID, "panic", value, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return handle(ctx, message)
}

// consumer is a running Consume.
type consumer struct {
	client *Client
	pop    call
	acks   *acker
	lease  time.Duration
	handle func(context.Context, *Raw) error
	// work is the context of all handlers. It ends Grace after the context of Consume.
	work context.Context //nolint:containedctx // it is the lifetime of the handlers
}

// consume runs workers until ctx ends or one of them fails, and returns the first failure.
func (c *Client) consume(ctx context.Context, o ConsumeOptions, workers int, handle func(context.Context, *Raw) error) error {
	pop, err := o.pop().call()
	if err != nil {
		return err
	}
	pop.endless = true
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, endWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endWork(nil)
	stopped := context.AfterFunc(ctx, func() {
		pauseFor(work, max(0, cmp.Or(o.Grace, defaultGrace)))
		endWork(context.Cause(ctx))
	})
	defer stopped()
	w := &consumer{
		client: c, pop: pop, lease: cmp.Or(o.Lease, defaultLease), handle: handle, work: work,
		acks: newAcker(context.WithoutCancel(ctx), c),
	}
	defer w.acks.close()
	if workers == 1 { // the loop body of Messages runs in the goroutine of its caller
		return w.run(ctx)
	}
	var running sync.WaitGroup
	var failure error
	var once sync.Once
	for range workers {
		running.Go(func() {
			if err := w.run(ctx); err != nil {
				once.Do(func() { failure = err; stop(err) })
			}
		})
	}
	running.Wait()
	return failure
}

// run pops and handles until ctx ends. It returns an error if the server refuses a pop.
func (w *consumer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		messages, err := w.client.pop(ctx, w.pop)
		var refused *Error
		switch {
		case len(messages) > 0:
			w.deliver(ctx, messages)
		case ctx.Err() != nil:
		case err == nil:
			if time.Since(began) < min(quick, w.pop.wait/2) {
				pauseFor(ctx, afterEmpty)
			}
		case errors.As(err, &refused) && refused.Status >= 400 && refused.Status < 500:
			return err
		default: // such as a message that cannot be read
			w.client.log.WarnContext(ctx, "a pop failed", "error", err)
			pauseFor(ctx, afterError)
		}
	}
	return nil
}

// statusOf returns how a message is acknowledged, "" for not at all, and the pause before the next delivery.
func (w *consumer) statusOf(err error) (AckStatus, time.Duration) {
	var decided *handled
	switch {
	case err == nil:
		return Completed, 0
	case errors.Is(err, ErrAcknowledged):
		return "", 0
	case errors.As(err, &decided):
		return decided.status, decided.pause
	case w.work.Err() != nil:
		return Retry, 0
	}
	return Failed, 0
}

// seconds returns a duration of at least a second that the API can express.
func seconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(max(1, d.Seconds()))) * time.Second
}
