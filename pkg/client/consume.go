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
	// afterError is the pause after a pop that failed with an error that is not 4xx, such as a message that cannot be read.
	afterError = time.Second
	// afterEmpty is the pause after an answer without messages that arrived earlier than quick.
	afterEmpty = 100 * time.Millisecond
	quick      = 50 * time.Millisecond
)

// ConsumeOptions are the settings of Consume and Messages. Set either Queue, or Namespace, Task or both. Otherwise
// Consume returns ErrInvalid.
type ConsumeOptions struct {
	Queue string
	// Partition restricts the consumer to one partition of Queue. "" means any partition.
	Partition string
	// Namespace and Task select the queues: the consumer receives from each queue that has both.
	Namespace, Task string
	// Group is the consumer group. Each group receives every message. "" means the reader without a group.
	Group string
	// SubscriptionMode and SubscriptionFrom say where a new group starts; see PopOptions.
	SubscriptionMode, SubscriptionFrom string

	// Concurrency is the number of workers. Each worker sends its own pops, and handles the messages of a pop one after the
	// other. 0 means 1. Messages ignores this field.
	Concurrency int
	// Batch is the maximum number of messages of a pop. 0 means 100. After a crash, the server delivers the messages of a pop
	// that were not acknowledged again.
	Batch int
	// Partitions is the maximum number of partitions of a pop. 0 means 1. If many partitions have few messages each, a higher
	// number saves requests. With slow handlers keep 1, so that other consumers get the other partitions.
	Partitions int
	// Wait is how long the server waits for a message. 0 means 30 seconds.
	Wait time.Duration
	// Lease is how long a lease lasts after each extension. 0 means one minute. The consumer extends a lease every Lease/3. If a
	// consumer crashes, its messages are delivered again after Lease, or after the leaseTime of the queue if it is longer.
	Lease time.Duration
	// Grace is how long handlers may continue after ctx has ended. After Grace, the context of the handlers ends. 0 means 30
	// seconds, and a negative value means no grace.
	Grace time.Duration
}

func (o ConsumeOptions) pop() PopOptions {
	return PopOptions{
		Queue: o.Queue, Partition: o.Partition, Namespace: o.Namespace, Task: o.Task, Group: o.Group,
		Batch: cmp.Or(o.Batch, defaultBatch), Partitions: o.Partitions, Wait: cmp.Or(o.Wait, defaultWait),
		SubscriptionMode: o.SubscriptionMode, SubscriptionFrom: o.SubscriptionFrom,
	}
}

// handled marks the errors of DeadLetter, RetryLater, RetryAfter and PauseGroup.
type handled struct {
	status            AckStatus
	pause, groupPause time.Duration
	error
}

func (h *handled) Unwrap() error { return h.error }

// DeadLetter returns an error that makes the message of a handler a dead letter at once. The dead letter keeps the text of err.
func DeadLetter(err error) error { return decide(DeadLettered, 0, err) }

// RetryLater returns an error with which the message is delivered again after a second. It does not count as a failure.
func RetryLater(err error) error { return RetryAfter(time.Second, err) }

// RetryAfter is RetryLater with the given pause. With 0 the message is delivered again at once.
func RetryAfter(pause time.Duration, err error) error { return decide(Retry, pause, err) }

// PauseGroup returns an error that says that a service is down which all messages of the group need. The breaker of the group opens for
// at least the given pause, up to 24 hours, and the message is delivered again after it. It does not count as a failure. The limits of
// the group must have a breaker. Otherwise the server refuses the acknowledgment, and the message is delivered again when its lease ends.
func PauseGroup(pause time.Duration, err error) error {
	marked := decide(Retry, 0, err)
	marked.groupPause = pause
	return marked
}

func decide(status AckStatus, pause time.Duration, err error) *handled {
	if err == nil {
		err = errors.New("the handler gave no reason")
	}
	return &handled{status: status, pause: pause, error: err}
}

// Consume calls handle for each message. When ctx ends, it returns nil:
//
//	err := client.Consume(ctx, c, client.ConsumeOptions{Queue: "orders", Group: "billing"},
//		func(ctx context.Context, m *client.Message[Order]) error { return ship(ctx, m.Data) })
//
// Consume handles the messages of a partition strictly in order, one at a time. Up to Concurrency handlers run at a time.
//
// The result of handle decides what happens to the message:
//   - nil: the message is completed.
//   - DeadLetter(err): the message becomes a dead letter.
//   - RetryLater(err): after a second, the message and all later messages of its partition are delivered again.
//   - RetryAfter(d, err): like RetryLater, but after d.
//   - PauseGroup(d, err): like RetryLater, but the group gets no message for d, because its breaker opens.
//   - ErrAcknowledged: Consume does nothing, because the handler acknowledged the message.
//   - any other error, a panic, or a payload that does not fit T: the message failed. The message and all later messages of its
//     partition are delivered again. When the retryLimit of the queue is reached, the message becomes a dead letter.
//
// The context of handle carries the trace id of the message. If the lease is lost, the context ends with the cause
// ErrLeaseLost. Then another consumer may already have the message. The context also ends Grace after ctx has ended. From then
// on, an error of handle counts as RetryAfter(0, err).
//
// When ctx ends, Consume sends no more pops and calls handle for no more messages. It waits for the running handlers,
// acknowledges the handled messages, and releases the others, which other consumers receive at once. It returns when all
// handlers have returned and the acknowledgments are answered or RetryFor has passed. A handler that ignores its context delays
// the return.
//
// If no server is available, Consume waits without a limit. If the server refuses a pop, for example because of the token,
// Consume returns the error.
func Consume[T any](ctx context.Context, c *Client, o ConsumeOptions, handle func(context.Context, *Message[T]) error) error {
	return c.consume(ctx, o, max(1, o.Concurrency), func(ctx context.Context, raw *Raw) error {
		return protect(ctx, c.log, raw, handle)
	})
}

// protect decodes a message and calls handle. It returns a panic of handle as an error.
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
	work context.Context //nolint:containedctx // the context is the lifetime of the handlers
}

// consume runs workers until ctx ends or a worker fails. It returns the first failure.
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

// run pops and handles messages until ctx ends. It returns an error if the server refuses a pop.
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

// statusOf returns the status of the acknowledgment and the pause before the next delivery. With the status "" no
// acknowledgment is sent.
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

// seconds rounds a duration up to whole seconds, at least one second.
func seconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(max(1, d.Seconds()))) * time.Second
}
