package adminplane

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"

	"github.com/belfry-mq/belfry/pkg/stats"
)

// queueStatusesLimit is the default page of GET /status/queues.
const queueStatusesLimit = 100

// QueueStatuses serves GET /api/v1/status/queues: the queues with given tags,
// newest first.
func (h *Handlers) QueueStatuses(p *wire.Params) (any, error) {
	page := readPage(p, queueStatusesLimit)
	filter := stats.QueueFilter{Namespace: p.Text("namespace"), Task: p.Text("task"), Limit: page.Limit, Offset: page.Offset}
	if p.Err != nil {
		return nil, p.Err
	}
	queues, err := h.Resources.Queues(p.Ctx(), filter)
	return wire.Fields{"queues", each(queues, toListedQueue), "pagination", page}, err
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
			"priority", o.Priority, "createdAt", detail.CreatedAt,
			"config", wire.Fields{
				"leaseTime", o.LeaseTime, "retryLimit", o.RetryLimit, "retryDelay", o.RetryDelay, "ttl", o.TTL,
				"maxQueueSize", o.MaxSize, "deadLetterQueue", o.DeadLetterQueue,
			},
		},
		"partitions", each(detail.Page, func(p *stats.Partition) partitionStatusJSON {
			return partitionStatusJSON{
				ID: p.ID, Name: p.Name, CreatedAt: p.CreatedAt, Messages: toCountsJSON(p.Counts),
				Stats: toCountsJSON(p.Counts), Cursor: consumedJSON{TotalConsumed: p.Consumed, TotalExpired: p.Expired},
				LastActivity: p.ActiveAt, OldestMessage: p.Oldest, NewestMessage: p.Newest,
			}
		}),
		"totals", queueTotalsJSON{toCountsJSON(detail.Counts), toCountsJSON(detail.Counts)},
		"swept", sweptJSON(detail.Swept), "pagination", page,
	}, err
}

// sweptJSON counts the messages that sweeps removed from a queue since it was
// created. Queen MQ does not have it.
type sweptJSON struct {
	Retention int64 `json:"retention"`
	Completed int64 `json:"completed"`
	Evicted   int64 `json:"evicted"`
	Unread    int64 `json:"unread"`
	Expired   int64 `json:"expired"`
	Skipped   int64 `json:"skipped"`
}

type sweepJSON struct {
	Job     string    `json:"job"`
	Running bool      `json:"running"`
	NextAt  time.Time `json:"nextAt"`
}

// Sweeps serves GET /api/v1/status/sweeps: for each kind of sweep whether it is
// running, and when it runs next. Queen MQ does not have it.
func (h *Handlers) Sweeps(p *wire.Params) (any, error) {
	found, err := h.Resources.Sweeps(p.Ctx())
	return wire.Fields{"sweeps", each(found, func(s *stats.Sweep) sweepJSON { return sweepJSON(*s) })}, err
}
