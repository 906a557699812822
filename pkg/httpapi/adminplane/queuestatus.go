package adminplane

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"

	"github.com/belfry-mq/belfry/pkg/stats"
)

// queueStatusesLimit is the default page of GET /status/queues.
const queueStatusesLimit = 100

type queueStatusesJSON struct {
	Queues     []listedQueueJSON `json:"queues"`
	Pagination pageJSON          `json:"pagination"`
}

// QueueStatuses serves GET /api/v1/status/queues: the queues with given tags,
// newest first.
func (h *Handlers) QueueStatuses(c echo.Context) error {
	p := &wire.Params{Context: c}
	namespace, task := p.Text("namespace"), p.Text("task")
	limit, offset := readLimits(p, queueStatusesLimit)
	if p.Err != nil {
		return p.Err
	}
	queues, err := h.Resources.Queues(c.Request().Context(), stats.QueueFilter{
		Namespace: namespace, Task: task, Limit: int64(limit), Offset: int64(offset),
	})
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, queueStatusesJSON{each(queues, toListedQueue), pageJSON{limit, offset}})
}

type queueConfigJSON struct {
	LeaseTime       int64 `json:"leaseTime"`
	RetryLimit      int64 `json:"retryLimit"`
	RetryDelay      int64 `json:"retryDelay"`
	TTL             int64 `json:"ttl"`
	MaxQueueSize    int64 `json:"maxQueueSize"`
	DeadLetterQueue bool  `json:"deadLetterQueue"`
}

type queueStatusHeadJSON struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Task      string          `json:"task"`
	Priority  int64           `json:"priority"`
	CreatedAt string          `json:"createdAt"`
	Config    queueConfigJSON `json:"config"`
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
	ID            string       `json:"id"`
	Name          string       `json:"name"`
	CreatedAt     string       `json:"createdAt"`
	Messages      countsJSON   `json:"messages"`
	Stats         countsJSON   `json:"stats"`
	Cursor        consumedJSON `json:"cursor"`
	LastActivity  *string      `json:"lastActivity"`
	OldestMessage *string      `json:"oldestMessage"`
	NewestMessage *string      `json:"newestMessage"`
}

// queueTotalsJSON has the same numbers twice, because clients read either place.
type queueTotalsJSON struct {
	Messages countsJSON `json:"messages"`
	countsJSON
}

type queueStatusJSON struct {
	Queue      queueStatusHeadJSON   `json:"queue"`
	Partitions []partitionStatusJSON `json:"partitions"`
	Totals     queueTotalsJSON       `json:"totals"`
	Swept      sweptJSON             `json:"swept"`
	Pagination partitionsPageJSON    `json:"pagination"`
}

// QueueStatus serves GET /api/v1/status/queues/:queue.
func (h *Handlers) QueueStatus(c echo.Context) error {
	detail, page, err := h.queueDetail(c)
	if err != nil {
		return err
	}
	o := &detail.Options
	return wire.AnswerJSON(c, http.StatusOK, queueStatusJSON{
		Queue: queueStatusHeadJSON{
			ID: detail.ID.String(), Name: detail.Name, Namespace: detail.Namespace, Task: detail.Task,
			Priority: o.Priority, CreatedAt: wire.FormatMillis(detail.CreatedAt),
			Config: queueConfigJSON{
				LeaseTime: o.LeaseTime, RetryLimit: o.RetryLimit, RetryDelay: o.RetryDelay, TTL: o.TTL,
				MaxQueueSize: o.MaxSize, DeadLetterQueue: o.DeadLetterQueue,
			},
		},
		Partitions: each(detail.Page, func(p *stats.Partition) partitionStatusJSON {
			return partitionStatusJSON{
				ID: p.ID.String(), Name: p.Name, CreatedAt: wire.FormatMillis(p.CreatedAt), Messages: toCountsJSON(p.Counts),
				Stats: toCountsJSON(p.Counts), Cursor: consumedJSON{TotalConsumed: p.Consumed, TotalExpired: p.Expired},
				LastActivity: millisOrNull(p.ActiveAt), OldestMessage: millisOrNull(p.Oldest), NewestMessage: millisOrNull(p.Newest),
			}
		}),
		Totals:     queueTotalsJSON{toCountsJSON(detail.Counts), toCountsJSON(detail.Counts)},
		Swept:      sweptJSON(detail.Swept),
		Pagination: page,
	})
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
	Job     string `json:"job"`
	Running bool   `json:"running"`
	NextAt  string `json:"nextAt"`
}

// Sweeps serves GET /api/v1/status/sweeps: for each kind of sweep whether it is
// running, and when it runs next. Queen MQ does not have it.
func (h *Handlers) Sweeps(c echo.Context) error {
	found, err := h.Resources.Sweeps(c.Request().Context())
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, map[string][]sweepJSON{"sweeps": each(found, func(s *stats.Sweep) sweepJSON {
		return sweepJSON{s.Job, s.Running, wire.FormatMillis(s.NextAt)}
	})})
}
