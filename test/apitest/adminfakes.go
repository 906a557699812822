package apitest

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// catalogFake replaces the queues of pkg/engine/catalog.
type catalogFake struct{ *Fakes }

func (f catalogFake) Change(_ context.Context, name string, change func(set *catalog.Settings)) (catalog.Settings, catalog.Configured, error) {
	set := catalog.Settings{Queue: name}
	change(&set)
	f.Configured = append(f.Configured, set)
	return set, catalog.Configured{QueueID: IDOne}, nil
}

func (f catalogFake) Configure(_ context.Context, set catalog.Settings) (catalog.Configured, error) {
	f.Configured = append(f.Configured, set)
	if f.Fakes.Configure != nil {
		return f.Fakes.Configure(set)
	}
	return catalog.Configured{QueueID: IDOne, PartitionID: IDTwo}, nil
}

func (f catalogFake) Delete(_ context.Context, name string) (bool, error) {
	f.Deleted = append(f.Deleted, name)
	if f.Fakes.Delete != nil {
		return f.Fakes.Delete(name)
	}
	return true, nil
}

func (f catalogFake) SetPaused(_ context.Context, what catalog.Pausable, paused bool, _ string) (bool, error) {
	verb := "resume"
	if paused {
		verb = "pause"
	}
	f.GroupCalls = append(f.GroupCalls, GroupCall{Verb: verb, Queue: what.Queue, Partition: what.Partition, Group: what.Group})
	return true, nil
}

func (f catalogFake) Blocked(context.Context, string, string, int64, int64) ([]catalog.Blocked, error) {
	return []catalog.Blocked{{Key: 1, Partition: "p", PartitionID: IDTwo, MessageID: IDOne, TransactionID: "t", Failures: 1, Deliveries: 1, Waiting: 2}}, nil
}

func (f catalogFake) Unblock(_ context.Context, place catalog.Place, action catalog.UnblockAction) (catalog.Unblocked, error) {
	f.GroupCalls = append(f.GroupCalls, GroupCall{Verb: "unblock " + string(action), Queue: place.Queue, Partition: place.Partition, Group: place.Group})
	return catalog.Unblocked{MessageID: IDOne, TransactionID: "t"}, nil
}

func (f catalogFake) Pauses(context.Context, *string, []string, int64) ([]catalog.Paused, error) {
	return []catalog.Paused{{Pausable: catalog.Pausable{Queue: "q"}, Reason: "the bell cracked"}}, nil
}

func (f catalogFake) FindUndo(_ context.Context, id queue.ID) (catalog.Undoable, error) {
	return catalog.Undoable{ID: id, Action: audit.SeekGroup, UndoAction: audit.SeekGroup, Target: audit.Target{Queue: "q", Group: "g"}}, nil
}

func (f catalogFake) PreviewUndo(context.Context, *catalog.Undoable) (catalog.Undone, error) {
	return catalog.Undone{Places: &catalog.UndonePlaces{Back: 2, Again: 5, Leases: 1}}, nil
}

func (f catalogFake) Undo(context.Context, *catalog.Undoable) (catalog.Undone, error) {
	return catalog.Undone{Places: &catalog.UndonePlaces{Back: 2, Again: 5}}, nil
}

func (f catalogFake) Notify(_ context.Context, queueName, partition string) error {
	f.GroupCalls = append(f.GroupCalls, GroupCall{Verb: "notify", Queue: queueName, Partition: partition})
	return nil
}

// groupsFake replaces the consumer groups of pkg/engine/catalog and pkg/insight/stats.
type groupsFake struct{ *Fakes }

func (f groupsFake) DeleteGroup(_ context.Context, group string, queueName *string, keep bool) (catalog.DeletedGroup, error) {
	call := GroupCall{Verb: "delete", Group: group, Keep: keep}
	if queueName != nil {
		call.Verb, call.Queue = "delete of queue", *queueName
	}
	f.GroupCalls = append(f.GroupCalls, call)
	return catalog.DeletedGroup{Cursors: 7}, nil
}

func (f groupsFake) SetSubscriptionStart(_ context.Context, group string, start time.Time) (int64, error) {
	f.GroupCalls = append(f.GroupCalls, GroupCall{Verb: "subscription", Group: group, Start: start})
	return 2, nil
}

func (f groupsFake) Seek(_ context.Context, queueName, group string, place catalog.Position) (int64, error) {
	call := GroupCall{Verb: "seek", Group: group, Queue: queueName, Place: place}
	f.GroupCalls = append(f.GroupCalls, call)
	if f.Fakes.Seek != nil {
		_, moved, err := f.Fakes.Seek(call)
		return moved, err
	}
	return 3, nil
}

func (f groupsFake) SeekPartition(_ context.Context, queueName, group, partition string, place catalog.Position) (catalog.PartitionSeek, error) {
	call := GroupCall{Verb: "seek partition", Group: group, Queue: queueName, Partition: partition, Place: place}
	f.GroupCalls = append(f.GroupCalls, call)
	if f.Fakes.Seek != nil {
		sought, _, err := f.Fakes.Seek(call)
		return sought, err
	}
	return catalog.PartitionSeek{Moved: true, Place: SeekPlace}, nil
}

func (f groupsFake) List(context.Context, []string) ([]stats.Group, error) { return f.Groups, nil }

func (f groupsFake) Group(_ context.Context, name string, limit int, _ []string) ([]stats.QueueProgress, error) {
	f.GroupCalls = append(f.GroupCalls, GroupCall{Verb: "show", Group: name, Limit: limit})
	return f.GroupQueues, nil
}

func (f groupsFake) Lagging(_ context.Context, over time.Duration, limit int, _ []string) ([]stats.LaggingPartition, error) {
	f.GroupCalls = append(f.GroupCalls, GroupCall{Verb: "lagging", Over: over, Limit: limit})
	return f.Fakes.Lagging, nil
}

// Audit replaces pkg/access/audit. It has the rows to return and the parameters of the last List.
type Audit struct {
	Rows   []audit.Row
	Filter audit.Filter
	After  audit.Key
	Limit  int64
	// Entries are the finished entries. Results has the result of each entry, in the same order.
	Entries []*audit.Entry
	Results []string
}

type auditFake struct{ *Audit }

func (a auditFake) List(_ context.Context, f audit.Filter, after audit.Key, limit int64) ([]audit.Row, error) {
	a.Filter, a.After, a.Limit = f, after, limit
	return a.Rows, nil
}

func (a auditFake) Finish(_ context.Context, e *audit.Entry, result string) {
	if e.Unfinished(result) {
		a.Entries, a.Results = append(a.Entries, e), append(a.Results, result)
	}
}

// Resources replace pkg/insight/stats. They have the answers, and the parameters of the last calls.
type Resources struct {
	Queues     []stats.Queue
	Detail     stats.QueueDetail
	Tags       []stats.Tag
	Overview   stats.Overview
	Sweeps     []api.Sweep
	Messages   stats.MessageList
	FailWith   error
	Filter     stats.QueueFilter
	After      *string
	Limit      int
	Counted    *int
	QueueName  string
	MessagesBy stats.MessageFilter
}

type resourcesFake struct{ *Resources }

func (r resourcesFake) Queues(_ context.Context, filter stats.QueueFilter) ([]stats.Queue, error) {
	r.Filter = filter
	return r.Resources.Queues, r.FailWith
}

func (r resourcesFake) QueueUpTo(_ context.Context, name string, after *string, limit int, counted *int) (stats.QueueDetail, error) {
	r.QueueName, r.After, r.Limit, r.Counted = name, after, limit, counted
	return r.Detail, r.FailWith
}

func (r resourcesFake) Exists(_ context.Context, name string) error {
	r.QueueName = name
	return r.FailWith
}

func (r resourcesFake) Namespaces(context.Context, []string) ([]stats.Tag, error) {
	return r.Tags, r.FailWith
}

func (r resourcesFake) Tasks(context.Context, []string) ([]stats.Tag, error) {
	return r.Tags, r.FailWith
}

func (r resourcesFake) Overview(context.Context, []string) (stats.Overview, error) {
	return r.Resources.Overview, r.FailWith
}

func (r resourcesFake) Sweeps(context.Context) ([]api.Sweep, error) {
	return r.Resources.Sweeps, r.FailWith
}

func (r resourcesFake) Messages(_ context.Context, filter stats.MessageFilter) (stats.MessageList, error) {
	r.MessagesBy = filter
	return r.Resources.Messages, r.FailWith
}

// Named finds every message.
func (r resourcesFake) Named(_ context.Context, names []stats.MessageName) (map[stats.MessageName]stats.NamedMessage, error) {
	found := map[stats.MessageName]stats.NamedMessage{}
	for _, name := range names {
		found[name] = stats.NamedMessage{PartitionID: IDOne, Status: stats.StatusPending, Unfinished: name.Group != ""}
	}
	return found, r.FailWith
}

// doctorFake finds no problem.
type doctorFake struct{}

func (doctorFake) Run(context.Context) api.Examination {
	return api.Examination{Healthy: true, Checks: []api.Finding{}}
}
