package apitest

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/redrivejob"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// DeadLetters replace pkg/engine/deadletter.
type DeadLetters struct {
	Letters []deadletter.Letter
	Message deadletter.Message
	// Missing makes the fake answer that the message does not exist.
	Missing bool

	Calls int
	// Texts are the names and transaction ids of all calls.
	Texts         []string
	Filter        deadletter.Filter
	After         deadletter.ListKey
	Limit, Offset int64
	Rate          int64
	DryRun        bool
	Group         *string
	Instant       deadletter.Instant
	Bounds        deadletter.SummaryBounds
	Summary       deadletter.Summary
	// Progress are the reports of RedriveAll. FailWith is the error of RedriveAll.
	Progress []deadletter.Result
	FailWith error
}

type deadLettersFake struct{ *DeadLetters }

func (f deadLettersFake) filtered(filter deadletter.Filter) {
	f.Calls++
	f.Filter = filter
	for _, text := range []*string{filter.Queue, filter.Group, filter.Partition, filter.TransactionID, filter.Error, filter.Shape} {
		if text != nil {
			f.Texts = append(f.Texts, *text)
		}
	}
}

func (f deadLettersFake) List(
	_ context.Context, filter deadletter.Filter, after deadletter.ListKey, limit, offset int64,
) (deadletter.Page, error) {
	f.filtered(filter)
	f.After, f.Limit, f.Offset = after, limit, offset
	return deadletter.Page{Letters: f.Letters, Total: int64(len(f.Letters))}, nil
}

func (f deadLettersFake) Redrive(_ context.Context, filter deadletter.Filter, rate int64, dryRun bool) (deadletter.Result, error) {
	f.filtered(filter)
	f.Rate, f.DryRun = rate, dryRun
	return deadletter.Result{Matched: 10, Taken: 5, Skipped: 2, Remaining: 3}, nil
}

func (f deadLettersFake) Move(ctx context.Context, filter deadletter.Filter, target string, rate int64, dryRun bool) (deadletter.Result, error) {
	f.Texts = append(f.Texts, "to "+target)
	return f.Redrive(ctx, filter, rate, dryRun)
}

func (f deadLettersFake) Summary(
	_ context.Context, filter deadletter.Filter, after deadletter.ListKey, bounds deadletter.SummaryBounds,
) (deadletter.Summary, error) {
	f.filtered(filter)
	f.After, f.Bounds = after, bounds
	return f.DeadLetters.Summary, nil
}

func (f deadLettersFake) RedriveAll(
	_ context.Context, filter deadletter.Filter, rate int64, report func(deadletter.Result) error,
) (done deadletter.Result, err error) {
	f.filtered(filter)
	f.Rate = rate
	for _, done = range f.Progress {
		if err := report(done); err != nil {
			return done, err
		}
	}
	return done, f.FailWith
}

func (f deadLettersFake) Purge(_ context.Context, filter deadletter.Filter, dryRun bool) (deadletter.Result, error) {
	f.filtered(filter)
	f.DryRun = dryRun
	return deadletter.Result{Matched: 10, Taken: 7, Remaining: 3}, nil
}

func (f deadLettersFake) PurgeTo(_ context.Context, filter deadletter.Filter, write func([]deadletter.Letter) error) (deadletter.Result, error) {
	f.filtered(filter)
	return deadletter.Result{}, write([]deadletter.Letter{{Queue: *filter.Queue}})
}

func (f deadLettersFake) Count(_ context.Context, filter deadletter.Filter, report func(n int64) error) (deadletter.AsOf, error) {
	f.filtered(filter)
	return deadletter.AsOf{N: 3}, report(2)
}

func (f deadLettersFake) named(transactionID string) error {
	f.Calls++
	f.Texts = append(f.Texts, transactionID)
	if f.Missing {
		f.Calls = 0
		return &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
	}
	return nil
}

func (f deadLettersFake) Message(_ context.Context, _ queue.ID, transactionID string) (deadletter.Message, error) {
	return f.DeadLetters.Message, f.named(transactionID)
}

func (f deadLettersFake) Attempts(context.Context, queue.ID, string, *string) ([]deadletter.Attempt, error) {
	return []deadletter.Attempt{{Group: "g", Number: 1, FailedAt: time.Now(), Result: "failed"}}, nil
}

func (f deadLettersFake) Resent(context.Context, queue.ID, string) ([]deadletter.Resent, error) {
	return []deadletter.Resent{}, nil
}

func (f deadLettersFake) Retry(_ context.Context, _ queue.ID, transactionID string, group *string) (int64, error) {
	f.Group = group
	if group != nil {
		f.Texts = append(f.Texts, *group)
	}
	return 1, f.named(transactionID)
}

func (f deadLettersFake) Discard(ctx context.Context, partition queue.ID, transactionID string, group *string) (int64, error) {
	return f.Retry(ctx, partition, transactionID, group)
}

func (f deadLettersFake) Reschedule(_ context.Context, _ queue.ID, transactionID string, to deadletter.Instant) (deadletter.Rescheduled, error) {
	f.Instant = to
	return deadletter.Rescheduled{After: to.At}, f.named(transactionID)
}

func (f deadLettersFake) Delete(_ context.Context, _ queue.ID, transactionID string) (bool, error) {
	return !f.Missing, f.named(transactionID)
}

// Traces replace pkg/insight/trace.
type Traces struct {
	Calls int
	// Texts are the names and transaction ids of all calls.
	Texts  []string
	Events []trace.Event
	After  trace.Position
}

type tracesFake struct{ *Traces }

func (f tracesFake) Add(_ context.Context, e trace.Event) (queue.ID, error) {
	f.Calls++
	f.Events = append(f.Events, e)
	f.Texts = append(append(f.Texts, e.TransactionID, e.Group, e.Type), e.Names...)
	return IDOne, nil
}

func (f tracesFake) OfMessage(_ context.Context, _ queue.ID, transactionID string, after trace.Position, _ int64) ([]trace.Trace, bool, error) {
	f.Calls++
	f.Texts, f.After = append(f.Texts, transactionID), after
	return []trace.Trace{{ID: IDOne, Data: []byte("{}")}}, false, nil
}

func (f tracesFake) ByName(_ context.Context, name string, after trace.Position, _ trace.Page) ([]trace.NamedTrace, int64, bool, error) {
	f.Calls++
	f.Texts, f.After = append(f.Texts, name), after
	return []trace.NamedTrace{{Trace: trace.Trace{ID: IDOne, Data: []byte("1"), CreatedAt: time.UnixMicro(1_500_000)}}}, 9, false, nil
}

func (f tracesFake) Names(context.Context, trace.Page) ([]api.TraceName, int64, error) {
	f.Calls++
	return nil, 0, nil
}

// jobsFake replaces pkg/engine/redrivejob. It has one running job of queue q.
type jobsFake struct{}

func (jobsFake) Start(_ context.Context, f deadletter.Filter, rate int64) (redrivejob.Job, error) {
	return redrivejob.Job{ID: IDOne, Filter: f, Rate: rate, Matched: 3, State: redrivejob.Running}, nil
}

func (jobsFake) Get(_ context.Context, id queue.ID) (redrivejob.Job, error) {
	name, group := "q", "g"
	return redrivejob.Job{ID: id, Filter: deadletter.Filter{Queue: &name, Group: &group}, State: redrivejob.Running}, nil
}

func (f jobsFake) List(ctx context.Context, _ []string, _ int64) ([]redrivejob.Job, error) {
	job, err := f.Get(ctx, IDOne)
	return []redrivejob.Job{job}, err
}

func (jobsFake) Stop(context.Context, queue.ID) error { return nil }
