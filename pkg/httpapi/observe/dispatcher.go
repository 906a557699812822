package observe

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// inboxTimeout limits the queries of DispatcherStatus.
const inboxTimeout = 2 * time.Second

// ListenerState describes the LISTEN connection.
type ListenerState struct {
	api.Listener
	// Instance is the id of this instance.
	Instance queue.ID
	// Others are the ids of the other instances.
	Others []queue.ID
}

// DispatcherStatus serves GET /api/v1/status/dispatcher. It helps to find out why no
// message arrives. It shows the waiting requests, the next due instants, and whether
// this instance receives the wakes of other instances.
func (h *Handlers) DispatcherStatus(p *wire.Params) (any, error) {
	status := h.Waiting.Status()
	ctx, cancel := context.WithTimeout(p.Ctx(), inboxTimeout)
	defer cancel()
	var inbox *api.Inbox
	if found, err := h.Inbox(ctx); err == nil { // after an error, the answer has no inbox
		inbox = &found
	}
	targets := h.targets(ctx, &status)
	return api.Dispatcher{
		Listener: h.Listener().Listener, Inbox: inbox, Waiting: int64(status.Waiting),
		Groups: wire.Each(status.Groups, func(g *dispatch.WaitingGroup) api.WaitingGroup {
			return api.WaitingGroup{
				Queue: g.Queue, Partition: g.Partition, Namespace: g.Namespace, Task: g.Task, ConsumerGroup: g.Group,
				Waiting: int64(g.Waiting), OldestSeconds: g.Oldest.Seconds(), NextTimeoutSeconds: g.Next.Seconds(),
			}
		}),
		Due: wire.Each(status.Due, func(d *dispatch.DueInstant) api.DueTarget {
			return api.DueTarget{Target: targets[d.Target], InSeconds: d.In.Seconds()}
		}),
		Backoff: wire.Each(status.Backoff, func(b *dispatch.BackoffGroup) api.BackoffTarget {
			return api.BackoffTarget{Target: targets[b.Target], EmptyLooks: int64(b.EmptyProbes), DelaySeconds: b.Delay.Seconds()}
		}),
		Batches: wire.Each(h.Flushes(), func(f *store.Flushes) api.Batch {
			return api.Batch{
				Operation: f.Op, Waiting: int64(f.Waiting), BlockedCallers: int64(f.Blocked), InFlight: int64(f.InFlight), Flushes: f.Flushes,
				Calls: f.Calls, Size: f.Size, FlushSeconds: f.Duration.Seconds(), Splits: f.Splits, Retries: f.Retries, Failures: f.Failures,
			}
		}),
		Truncated: status.Truncated,
	}, nil
}

// targets returns the targets of a status with their names. If the query for the names fails or ctx ends, it returns them
// without names.
func (h *Handlers) targets(ctx context.Context, status *dispatch.Status) map[queue.Target]api.Target {
	found := map[queue.Target]api.Target{}
	for i := range status.Due {
		found[status.Due[i].Target] = api.Target{}
	}
	for i := range status.Backoff {
		found[status.Backoff[i].Target] = api.Target{}
	}
	if len(found) == 0 {
		return found
	}
	targets := slices.Collect(maps.Keys(found))
	names, err := h.Owners.Targets(ctx, targets)
	if err != nil {
		names = make([]catalog.Names, len(targets))
	}
	for i, target := range targets {
		found[target] = api.Target{
			GroupID: target.Group, PartitionID: target.Partition, Queue: names[i].Queue, ConsumerGroup: names[i].Group, Partition: names[i].Partition,
		}
	}
	return found
}
