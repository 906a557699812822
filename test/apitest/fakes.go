package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/maintenance"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/engine/stream"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Fakes replace the packages that the HTTP API calls. If a function is nil, the fake returns a fixed answer.
type Fakes struct {
	Producers Producers
	Push      func(items []queue.PushItem) ([]queue.PushResult, error)
	Ack       func(items []queue.AckItem) ([]queue.AckResult, error)
	Extend    func(lease queue.ID, d time.Duration) (time.Time, error)
	Transact  func(tx *queue.Transaction) (queue.TransactionResult, error)
	Pop       func(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error)
	Configure func(set catalog.Settings) (catalog.Configured, error)
	Delete    func(name string) (bool, error)
	Seek      func(call GroupCall) (catalog.PartitionSeek, int64, error)
	Ping      func(ctx context.Context) error
	Metrics   *httpapi.Metrics
	// Streaming keeps event streams open. If it is false, each stream ends at its start.
	Streaming bool

	Totals      totals.Snapshot
	FreshTotals *totals.Snapshot
	// Search is the search for partitions.
	Search func(part string, from stats.SearchPlace, limit int) ([]stats.FoundPartition, stats.SearchPlace, bool, error)
	// Recent and Served are the latest counts of queues and groups.
	Recent      map[string]history.Recent
	Served      map[history.GroupOf]history.Served
	Groups      []stats.Group
	GroupQueues []stats.QueueProgress
	Lagging     []stats.LaggingPartition
	Waiting     int
	Status      dispatch.Status
	Listener    httpapi.ListenerState
	// Inbox is the state of the inbox. If it is nil, the database does not answer.
	Inbox       *api.Inbox
	Flushes     []store.Flushes
	Resources   Resources
	Lists       Lists
	DeadLetters DeadLetters
	Traces      Traces
	Audit       Audit
	// PartitionQueues and LeaseOwners are the partitions and leases that exist. The checks of grants read them.
	PartitionQueues map[queue.ID]string
	LeaseOwners     map[queue.ID][]catalog.Owner
	// Names maps a target to the names of its queue, group and partition.
	Names map[queue.Target]catalog.Names
	// PositionsOf returns for each partition of the leases the seq up to which all messages are done.
	PositionsOf func(leases []queue.ID) map[catalog.LeasePosition]int64

	// These fields are the calls that the fakes received.
	Pushed       [][]queue.PushItem
	Acked        [][]queue.AckItem
	Popped       []*queue.PopRequest
	Transactions []*queue.Transaction
	Released     []queue.Delivery
	Configured   []catalog.Settings
	Deleted      []string
	Queries      []stream.Query
	Rights       RightsCalls
	Schedules    Schedules
	GroupCalls   []GroupCall
}

// GroupCall is a call about consumer groups.
type GroupCall struct {
	Verb, Group, Queue, Partition string

	Keep  bool
	Start time.Time
	Place catalog.Position
	Over  time.Duration
	Limit int
}

// Failing returns fakes that answer a push with err.
func Failing(err error) *Fakes {
	return &Fakes{Push: func([]queue.PushItem) ([]queue.PushResult, error) { return nil, err }}
}

// OneMessage returns a delivery of one message under the lease IDThree.
func OneMessage() queue.Delivery {
	return queue.Delivery{
		Queue: "orders", Group: "g", LeaseID: IDThree, Partitions: 1,
		Messages: []queue.Message{{
			Partition: &queue.Partition{ID: IDOne, Name: "Default"}, ID: IDTwo, TransactionID: "t", Payload: json.RawMessage("1"),
		}},
	}
}

// Deliver returns a fake pop that answers every request with d.
func Deliver(d queue.Delivery) func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
	return func(context.Context, *queue.PopRequest) (queue.Delivery, error) { return d, nil }
}

// Reached reports whether a fake was called.
func (f *Fakes) Reached() bool {
	return len(f.Rights.Tokens)+len(f.Rights.Revoked)+len(f.Rights.Grants)+len(f.Pushed)+len(f.Acked)+len(f.Popped)+len(f.Transactions)+len(f.Configured)+len(f.Deleted)+len(f.GroupCalls)+len(f.Queries)+
		f.DeadLetters.Calls+f.Traces.Calls+f.Schedules.Calls > 0
}

func (f *Fakes) inboxState(context.Context) (api.Inbox, error) {
	if f.Inbox == nil {
		return api.Inbox{}, errors.New("the database does not answer")
	}
	return *f.Inbox, nil
}

// ownersFake replaces pkg/engine/catalog.
type ownersFake struct{ *Fakes }

func (f ownersFake) QueuesOf(context.Context, []queue.ID, func(int, string) bool) (map[queue.ID]string, error) {
	return f.PartitionQueues, nil
}

func (f ownersFake) Targets(_ context.Context, targets []queue.Target) ([]catalog.Names, error) {
	names := make([]catalog.Names, len(targets))
	for i, target := range targets {
		names[i] = f.Names[target]
	}
	return names, nil
}

func (f ownersFake) Leases(context.Context, []queue.ID) (map[queue.ID][]catalog.Owner, error) {
	return f.LeaseOwners, nil
}

// switchesFake replaces pkg/engine/maintenance. No maintenance is on.
type switchesFake struct{}

func (switchesFake) Load(context.Context) error                          { return nil }
func (switchesFake) PushPaused() <-chan struct{}                         { return nil }
func (switchesFake) PopPaused() <-chan struct{}                          { return nil }
func (switchesFake) Set(context.Context, maintenance.Switch, bool) error { return nil }

// spoolFake replaces the disk of pkg/engine/spool. It stores no rows.
type spoolFake struct{}

func (spoolFake) Healthy() error     { return nil }
func (spoolFake) Stats() spool.Stats { return spool.Stats{} }
func (spoolFake) Everywhere(context.Context) ([]spool.Held, error) {
	return []spool.Held{{Host: "here"}}, nil
}
func (spoolFake) Rejections(context.Context, int) ([]spool.Rejection, error) {
	return []spool.Rejection{}, nil
}
func (spoolFake) Retry() (int, error)   { return 0, nil }
func (spoolFake) Discard() (int, error) { return 0, nil }

// streamsFake replaces pkg/engine/stream.
type streamsFake struct{ *Fakes }

func (f streamsFake) Register(_ context.Context, q stream.Query, _ bool) (stream.Registered, error) {
	f.Queries = append(f.Queries, q)
	return stream.Registered{ID: IDOne, Fresh: true}, nil
}

func (f streamsFake) Source(context.Context, queue.ID) (source string, found bool, err error) {
	return "orders", true, nil
}

func (f streamsFake) State(context.Context, queue.ID, queue.ID, stream.StateFilter) ([]stream.Entry, error) {
	return nil, nil
}

func (f streamsFake) List(context.Context, stream.Query, int64, []string) ([]stream.Listed, error) {
	return nil, nil
}

func (f streamsFake) Delete(_ context.Context, id queue.ID) (existed bool, err error) {
	f.Deleted = append(f.Deleted, id.String())
	return true, nil
}

// verbsFake replaces the verbs of producers and consumers, such as push, pop and ack.
type verbsFake struct{ *Fakes }

func (f verbsFake) Push(_ context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	f.Pushed = append(f.Pushed, items)
	if f.Fakes.Push != nil {
		return f.Fakes.Push(items)
	}
	return make([]queue.PushResult, len(items)), nil
}

func (f verbsFake) Ack(_ context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	f.Acked = append(f.Acked, items)
	if f.Fakes.Ack != nil {
		return f.Fakes.Ack(items)
	}
	return make([]queue.AckResult, len(items)), nil
}

func (f verbsFake) Extend(_ context.Context, lease queue.ID, d time.Duration) (time.Time, error) {
	return f.Fakes.Extend(lease, d)
}

func (f verbsFake) Transact(_ context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	f.Transactions = append(f.Transactions, tx)
	if f.Fakes.Transact != nil {
		return f.Fakes.Transact(tx)
	}
	result := queue.TransactionResult{Applied: true, Operations: make([]queue.OperationResult, len(tx.Operations))}
	for i, op := range tx.Operations {
		if op.Push != nil {
			result.Operations[i].Push = &queue.PushResult{TransactionID: op.Push.TransactionID, MessageID: IDOne, PartitionID: IDTwo}
		} else {
			result.Operations[i].Ack = &queue.AckResult{Success: true, Resolved: true}
		}
	}
	return result, nil
}

func (f verbsFake) Pop(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error) {
	f.Popped = append(f.Popped, req)
	if f.Fakes.Pop == nil {
		return &queue.Delivery{}, nil
	}
	delivery, err := f.Fakes.Pop(ctx, req)
	return &delivery, err
}

func (f verbsFake) Release(_ context.Context, delivery *queue.Delivery) {
	f.Released = append(f.Released, *delivery)
}

func (f verbsFake) Waiting() int { return f.Fakes.Waiting }

func (f verbsFake) Status() dispatch.Status { return f.Fakes.Status }

func (f verbsFake) WaitingFor(dispatch.WaitingGroup) int { return f.Fakes.Status.Waiting }

// InFlight returns the result of PositionsOf.
func (f ownersFake) InFlight(_ context.Context, leases []queue.ID) (map[catalog.LeasePosition]int64, error) {
	if f.PositionsOf == nil {
		return nil, nil
	}
	return f.PositionsOf(leases), nil
}
