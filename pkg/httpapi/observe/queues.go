package observe

import (
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// queueStatusesLimit is the default page of GET /status/queues.
	queueStatusesLimit = 100
	// maxListedPartitions is how many partitions GET /resources/queues/:queue and
	// GET /status/queues/:queue list. The totals always cover all partitions.
	maxListedPartitions = 10_000
)

// countsJSON counts messages by state. Failed is always 0: a failed message is
// pending again or a dead letter.
type countsJSON struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
	DeadLetter int64 `json:"deadLetter"`
}

func toCountsJSON(c stats.Counts) countsJSON {
	return countsJSON{Total: c.Total, Pending: c.Pending, Processing: c.Processing, Completed: c.Completed, DeadLetter: c.DeadLetter}
}

type partitionJSON struct {
	ID            queue.ID   `json:"id"`
	Name          string     `json:"name"`
	CreatedAt     time.Time  `json:"createdAt"`
	Paused        bool       `json:"paused"`
	Stats         countsJSON `json:"stats"`
	OldestMessage time.Time  `json:"oldestMessage"`
	NewestMessage time.Time  `json:"newestMessage"`
}

// QueueRow returns the members of a queue in a list.
func QueueRow(q *stats.Queue) wire.Fields {
	return wire.Fields{
		"id", q.ID, "name", q.Name, "namespace", q.Namespace, "task", q.Task, "createdAt", q.CreatedAt, "paused", q.Paused,
		"partitions", q.Partitions, "messages", wire.Fields{"total", q.Counts.Total, "pending", q.Counts.Pending, "processing", q.Counts.Processing, "deadLetter", q.Counts.DeadLetter},
	}
}

// Queue serves GET /api/v1/resources/queues/:queue.
func (h *Handlers) Queue(p *wire.Params) (any, error) {
	detail, page, err := h.queueDetail(p)
	return wire.Fields{
		"id", detail.ID, "name", detail.Name, "namespace", detail.Namespace, "task", detail.Task,
		"createdAt", detail.CreatedAt, "paused", detail.Paused,
		"partitions", wire.Each(detail.Page, func(p *stats.Partition) partitionJSON {
			return partitionJSON{
				ID: p.ID, Name: p.Name, CreatedAt: p.CreatedAt, Paused: p.Paused, Stats: toCountsJSON(p.Counts),
				OldestMessage: p.Oldest, NewestMessage: p.Newest,
			}
		}),
		"totals", toCountsJSON(detail.Counts), "swept", swept(detail.Swept), "pagination", page,
	}, err
}

// queueDetail reads a queue with at most limit partitions after the partition
// that cursor names. The next of page is null on the last page. With countLimit the totals cover so many
// partitions, limit can be 0, and page has totalsAreLowerBounds.
func (h *Handlers) queueDetail(p *wire.Params) (detail stats.QueueDetail, page wire.Fields, err error) {
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
	var next *string
	if err == nil && detail.More && len(detail.Page) > 0 {
		next = &detail.Page[len(detail.Page)-1].Name
	}
	page = wire.Fields{"limit", limit, "next", next}
	if counted != nil {
		page = append(page, "totalsAreLowerBounds", detail.Partial)
	}
	return detail, page, err
}

// countLimit reads how many partitions the totals cover; nil: all of them.
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

// QueueStatuses serves GET /api/v1/status/queues: the queues with given tags,
// newest first.
func (h *Handlers) QueueStatuses(p *wire.Params) (any, error) {
	page := wire.ReadPage(p, queueStatusesLimit)
	filter := stats.QueueFilter{
		Namespace: p.Text("namespace"), Task: p.Text("task"), Limit: page.Limit, Offset: page.Offset, Allowed: readable(p),
	}
	if p.Err != nil {
		return nil, p.Err
	}
	queues, err := h.Resources.Queues(p.Ctx(), filter)
	return wire.Fields{"queues", wire.Each(queues, QueueRow), "pagination", page}, err
}

// consumedJSON is the progress of all groups together in one partition. Belfry
// does not count batches, so BatchesConsumed is 0. TotalExpired counts the expired
// messages that pops skipped; Queen MQ does not have it.
type consumedJSON struct {
	TotalConsumed   int64 `json:"totalConsumed"`
	BatchesConsumed int64 `json:"batchesConsumed"`
	TotalExpired    int64 `json:"totalExpired"`
}

type partitionStatusJSON struct {
	ID            queue.ID     `json:"id"`
	Name          string       `json:"name"`
	CreatedAt     time.Time    `json:"createdAt"`
	Paused        bool         `json:"paused"`
	Messages      countsJSON   `json:"messages"`
	Stats         countsJSON   `json:"stats"`
	Cursor        consumedJSON `json:"cursor"`
	LastActivity  time.Time    `json:"lastActivity"`
	OldestMessage time.Time    `json:"oldestMessage"`
	NewestMessage time.Time    `json:"newestMessage"`
}

// queueTotalsJSON has the same numbers twice, because clients read either place.
type queueTotalsJSON struct {
	Messages countsJSON `json:"messages"`
	countsJSON
}

// QueueStatus serves GET /api/v1/status/queues/:queue.
func (h *Handlers) QueueStatus(p *wire.Params) (any, error) {
	detail, page, err := h.queueDetail(p)
	o := &detail.Options
	return wire.Fields{
		"queue", wire.Fields{
			"id", detail.ID, "name", detail.Name, "namespace", detail.Namespace, "task", detail.Task,
			"priority", o.Priority, "createdAt", detail.CreatedAt, "paused", detail.Paused,
			"config", wire.Fields{
				"leaseTime", o.LeaseTime, "retryLimit", o.RetryLimit, "retryDelay", o.RetryDelay, "ttl", o.TTL,
				"maxQueueSize", o.MaxSize, "deadLetterQueue", o.DeadLetterQueue,
			},
			"options", ConfiguredOptions(o, &detail.Extensions),
		},
		"partitions", wire.Each(detail.Page, func(p *stats.Partition) partitionStatusJSON {
			return partitionStatusJSON{
				ID: p.ID, Name: p.Name, CreatedAt: p.CreatedAt, Paused: p.Paused, Messages: toCountsJSON(p.Counts),
				Stats: toCountsJSON(p.Counts), Cursor: consumedJSON{TotalConsumed: p.Consumed, TotalExpired: p.Expired},
				LastActivity: p.ActiveAt, OldestMessage: p.Oldest, NewestMessage: p.Newest,
			}
		}),
		"totals", queueTotalsJSON{toCountsJSON(detail.Counts), toCountsJSON(detail.Counts)},
		"swept", swept(detail.Swept), "pagination", page,
	}, err
}

// swept counts the messages that sweeps removed from a queue since it was created.
// Queen MQ does not have it.
func swept(n stats.SweepTotals) wire.Fields {
	return wire.Fields{
		"retention", n.Retention, "completed", n.Completed, "evicted", n.Evicted, "unread", n.Unread,
		"expired", n.Expired, "skipped", n.Skipped,
	}
}

// Sweeps serves GET /api/v1/status/sweeps: for each kind of sweep whether it is
// running, and when it runs next. Queen MQ does not have it.
func (h *Handlers) Sweeps(p *wire.Params) (any, error) {
	found, err := h.Resources.Sweeps(p.Ctx())
	return wire.Fields{"sweeps", wire.Each(found, func(s *stats.Sweep) wire.Fields {
		return wire.Fields{"job", s.Job, "running", s.Running, "nextAt", s.NextAt}
	})}, err
}

// ConfiguredOptions returns all options as POST /api/v1/configure takes them.
func ConfiguredOptions(o *queue.Options, more *queue.Extensions) wire.Fields {
	return wire.Fields{
		"leaseTime", o.LeaseTime, "retryLimit", o.RetryLimit, "retryDelay", o.RetryDelay, "retryBackoff", more.RetryBackoff,
		"retryDelayMax", more.RetryDelayMax, "delayedProcessing", o.DelayedProcessing, "windowBuffer", o.WindowBuffer,
		"encryptionEnabled", o.EncryptionEnabled, "retentionEnabled", o.RetentionEnabled, "retentionSeconds", o.RetentionSeconds,
		"completedRetentionSeconds", o.CompletedRetentionSeconds, "maxWaitTimeSeconds", o.MaxWaitTimeSeconds, "maxSize", o.MaxSize,
		"priority", o.Priority, "ttl", o.TTL, "deadLetterQueue", o.DeadLetterQueue, "dlqAfterMaxRetries", o.DLQAfterMaxRetries,
		"expireAfterSeconds", more.ExpireAfterSeconds, "deadLetterExpired", more.DeadLetterExpired, "maxDeliveries", more.MaxDeliveries,
	}
}
