package httpapi

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/trace"
)

// letterFake stands in for pkg/deadletter and traceFake for pkg/trace; what came
// is kept as texts.
type letterFake struct {
	texts   []string
	calls   int
	letters []deadletter.Letter
	message deadletter.Message
	filter  deadletter.Filter
	after   deadletter.Place
	limit   int64
	offset  int64
	rate    int64
	dryRun  bool
	group   *string
	missing bool
}

func (f *letterFake) took(filter deadletter.Filter) {
	f.calls++
	f.filter = filter
	for _, text := range []*string{filter.Queue, filter.Group, filter.Partition, filter.TransactionID} {
		if text != nil {
			f.texts = append(f.texts, *text)
		}
	}
}

func (f *letterFake) List(_ context.Context, filter deadletter.Filter, after deadletter.Place, limit, offset int64) ([]deadletter.Letter, int64, error) {
	f.took(filter)
	f.after, f.limit, f.offset = after, limit, offset
	return f.letters, int64(len(f.letters)), nil
}

func (f *letterFake) Redrive(_ context.Context, filter deadletter.Filter, rate int64, dryRun bool) (deadletter.Done, error) {
	f.took(filter)
	f.rate, f.dryRun = rate, dryRun
	return deadletter.Done{Matched: 10, Taken: 5, Skipped: 2, Remaining: 3}, nil
}

func (f *letterFake) Purge(_ context.Context, filter deadletter.Filter, dryRun bool) (deadletter.Done, error) {
	f.took(filter)
	f.dryRun = dryRun
	return deadletter.Done{Matched: 10, Taken: 7, Remaining: 3}, nil
}

func (f *letterFake) named(transactionID string) error {
	f.calls++
	f.texts = append(f.texts, transactionID)
	if f.missing {
		f.calls = 0
		return &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
	}
	return nil
}

func (f *letterFake) Message(_ context.Context, _ queue.ID, transactionID string) (deadletter.Message, error) {
	return f.message, f.named(transactionID)
}

func (f *letterFake) Retry(_ context.Context, _ queue.ID, transactionID string, group *string) (int64, error) {
	f.group = group
	if group != nil {
		f.texts = append(f.texts, *group)
	}
	return 1, f.named(transactionID)
}

func (f *letterFake) Delete(_ context.Context, _ queue.ID, transactionID string) (bool, error) {
	return !f.missing, f.named(transactionID)
}

type traceFake struct {
	texts  []string
	events []trace.Event
	calls  int
	after  trace.Position
}

func (f *traceFake) Add(_ context.Context, e trace.Event) (queue.ID, error) {
	f.calls++
	f.events = append(f.events, e)
	f.texts = append(append(f.texts, e.TransactionID, e.Group, e.Type), e.Names...)
	return idOne, nil
}

func (f *traceFake) OfMessage(_ context.Context, _ queue.ID, transactionID string, _ int64) ([]trace.Trace, error) {
	f.calls++
	f.texts = append(f.texts, transactionID)
	return []trace.Trace{{ID: idOne, Data: []byte("{}")}}, nil
}

func (f *traceFake) ByName(_ context.Context, name string, after trace.Position, _, _ int64) ([]trace.NamedTrace, int64, error) {
	f.calls++
	f.texts, f.after = append(f.texts, name), after
	return []trace.NamedTrace{{Trace: trace.Trace{ID: idOne, Data: []byte("1"), CreatedAt: time.UnixMicro(1_500_000)}}}, 9, nil
}

func (f *traceFake) Names(context.Context, int64, int64) ([]trace.NameCount, int64, error) {
	f.calls++
	return nil, 0, nil
}
