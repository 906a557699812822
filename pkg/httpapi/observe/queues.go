package observe

import (
	"strconv"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// queueStatusesLimit is the default limit of GET /status/queues.
	queueStatusesLimit = 100
	// maxListedPartitions is the largest limit of GET /resources/queues/:queue and
	// GET /status/queues/:queue. It is also the default.
	maxListedPartitions = 10_000
)

// counts converts counts.
func counts(c stats.Counts) api.Counts {
	return api.Counts{Total: c.Total, Pending: c.Pending, Processing: c.Processing, Completed: c.Completed, DeadLetter: c.DeadLetter}
}

func listedCounts(c stats.Counts) api.ListedCounts {
	return api.ListedCounts{Total: c.Total, Pending: c.Pending, Processing: c.Processing, DeadLetter: c.DeadLetter}
}

// ListedQueue converts a queue in a list.
func ListedQueue(q *stats.Queue) api.ListedQueue {
	return api.ListedQueue{
		ID: q.ID.String(), Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: q.CreatedAt, Paused: q.Paused,
		Partitions: q.Partitions, Messages: listedCounts(q.Counts),
	}
}

// Queue serves GET /api/v1/resources/queues/:queue.
func (h *Handlers) Queue(p *wire.Params) (any, error) {
	detail, page, err := h.queueDetail(p)
	return api.QueueDetail{
		ID: detail.ID.String(), Name: detail.Name, Namespace: detail.Namespace, Task: detail.Task,
		CreatedAt: detail.CreatedAt, Paused: detail.Paused,
		Partitions: wire.Each(detail.Page, func(p *stats.Partition) api.Partition {
			return api.Partition{
				ID: p.ID.String(), Name: p.Name, CreatedAt: p.CreatedAt, Paused: p.Paused, Tenant: p.Tenant, Stats: counts(p.Counts),
				OldestMessage: &p.Oldest, NewestMessage: &p.Newest,
			}
		}),
		Totals: counts(detail.Counts), Swept: detail.Swept, Pagination: page,
	}, err
}

// queueDetail reads a queue with at most limit partitions after the partition cursor.
// page.Next is nil on the last page. With countLimit, the totals include at most this number of
// partitions, limit can be 0, and page has TotalsAreLowerBounds.
func (h *Handlers) queueDetail(p *wire.Params) (detail stats.QueueDetail, page api.PartitionPage, err error) {
	name := p.PathName("queue")
	var after *string
	if p.QueryParams().Has("cursor") {
		text := p.Text("cursor")
		after = &text
	}
	p.Check(wire.MayRead(p.Ctx(), name))
	if p.Err != nil {
		return detail, page, p.Err
	}
	limit := wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), maxListedPartitions), maxListedPartitions)
	counted := countLimit(p)
	if counted != nil {
		limit = wire.Clamp(0, wire.LeadingInt(p.QueryParam("limit"), maxListedPartitions), maxListedPartitions)
	}
	if p.Err != nil {
		return detail, page, p.Err
	}
	detail, err = h.Resources.QueueUpTo(p.Ctx(), name, after, limit, counted)
	page.Limit = int64(limit)
	if err == nil && detail.More && len(detail.Page) > 0 {
		page.Next = &detail.Page[len(detail.Page)-1].Name
	}
	if counted != nil {
		page.TotalsAreLowerBounds = &detail.Partial
	}
	return detail, page, err
}

// countLimit reads how many partitions the totals include. Nil means all partitions.
func countLimit(p *wire.Params) *int {
	text := p.QueryParam("countLimit")
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxListedPartitions {
		p.Check(queue.Invalidf("countLimit is %q: it must be a whole number between 0 and %d", wire.Clip(text), maxListedPartitions))
	}
	return &n
}

// QueueStatuses serves GET /api/v1/status/queues. It lists the queues with the given
// tags, the newest first.
func (h *Handlers) QueueStatuses(p *wire.Params) (any, error) {
	page := wire.ReadPage(p, queueStatusesLimit)
	filter := stats.QueueFilter{
		Namespace: p.Text("namespace"), Task: p.Text("task"), Limit: page.Limit, Offset: page.Offset, Allowed: readable(p),
	}
	if p.Err != nil {
		return nil, p.Err
	}
	queues, err := h.Resources.Queues(p.Ctx(), filter)
	return api.QueueStatuses{Queues: wire.Each(queues, ListedQueue), Pagination: page}, err
}

// QueueStatus serves GET /api/v1/status/queues/:queue. Belfry does not count batches, so BatchesConsumed is 0.
func (h *Handlers) QueueStatus(p *wire.Params) (any, error) {
	detail, page, err := h.queueDetail(p)
	o := &detail.Options
	return api.QueueStatus{
		Queue: api.QueueSettings{
			ID: detail.ID.String(), Name: detail.Name, Namespace: detail.Namespace, Task: detail.Task,
			Priority: int(o.Priority), CreatedAt: detail.CreatedAt, Paused: detail.Paused,
			Config: api.QueueConfig{
				LeaseTime: o.LeaseTime, RetryLimit: o.RetryLimit, RetryDelay: o.RetryDelay, TTL: o.TTL,
				MaxQueueSize: o.MaxSize, DeadLetterQueue: o.DeadLetterQueue,
			},
			Options: ConfiguredOptions(o, &detail.Extensions),
		},
		Partitions: wire.Each(detail.Page, func(p *stats.Partition) api.PartitionStatus {
			return api.PartitionStatus{
				ID: p.ID.String(), Name: p.Name, CreatedAt: p.CreatedAt, Paused: p.Paused, Tenant: p.Tenant, Messages: counts(p.Counts),
				Stats: counts(p.Counts), Cursor: api.PartitionCursor{TotalConsumed: p.Consumed, TotalExpired: p.Expired},
				LastActivity: &p.ActiveAt, OldestMessage: &p.Oldest, NewestMessage: &p.Newest,
			}
		}),
		Totals: api.QueueTotals{Messages: counts(detail.Counts), Counts: counts(detail.Counts)},
		Swept:  detail.Swept, Pagination: page,
	}, err
}

// Sweeps serves GET /api/v1/status/sweeps. It shows for each kind of sweep whether it is
// running, and when it runs next. Queen MQ does not have this route.
func (h *Handlers) Sweeps(p *wire.Params) (any, error) {
	found, err := h.Resources.Sweeps(p.Ctx())
	return api.Sweeps{Sweeps: found}, err
}

// ConfiguredOptions returns all options with the names of POST /api/v1/configure.
func ConfiguredOptions(o *queue.Options, more *queue.Extensions) api.QueueOptions {
	return api.QueueOptions{
		LeaseTime: o.LeaseTime, RetryLimit: o.RetryLimit, RetryDelay: o.RetryDelay, RetryBackoff: more.RetryBackoff,
		RetryDelayMax: more.RetryDelayMax, DelayedProcessing: o.DelayedProcessing, WindowBuffer: o.WindowBuffer,
		EncryptionEnabled: o.EncryptionEnabled, RetentionEnabled: o.RetentionEnabled, RetentionSeconds: o.RetentionSeconds,
		CompletedRetentionSeconds: o.CompletedRetentionSeconds, MaxWaitTimeSeconds: o.MaxWaitTimeSeconds, MaxSize: o.MaxSize,
		Priority: int(o.Priority), TTL: o.TTL, DeadLetterQueue: o.DeadLetterQueue, DLQAfterMaxRetries: o.DLQAfterMaxRetries,
		ExpireAfterSeconds: more.ExpireAfterSeconds, DeadLetterExpired: more.DeadLetterExpired, MaxDeliveries: more.MaxDeliveries,
		TenantDelimiter: more.TenantDelimiter,
	}
}
