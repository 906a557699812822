package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/stats"
)

// queueStatusesLimit is the page of GET /status/queues that names no limit.
const queueStatusesLimit = 100

type queueStatusesJSON struct {
	Queues     []listedQueueJSON `json:"queues"`
	Pagination pageJSON          `json:"pagination"`
}

// queueStatuses serves GET /api/v1/status/queues: queues by tags, newest first.
func (s *Server) queueStatuses(c echo.Context) error {
	namespace, err := textQuery(c, "namespace")
	if err != nil {
		return err
	}
	task, err := textQuery(c, "task")
	if err != nil {
		return err
	}
	limit, offset, err := pageQuery(c, queueStatusesLimit)
	if err != nil {
		return err
	}
	queues, err := s.deps.Resources.Queues(c.Request().Context(), stats.QueueFilter{
		Namespace: namespace, Task: task, Limit: int64(limit), Offset: int64(offset),
	})
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, queueStatusesJSON{listQueues(queues), pageJSON{limit, offset}})
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

// consumedJSON is what all groups together have consumed of a partition. Batches
// are not counted by Belfry: that number is 0. TotalExpired is ours: what their
// pops found expired.
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

// queueTotalsJSON has the same numbers twice: clients read both places.
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

// queueStatus serves GET /api/v1/status/queues/:queue.
func (s *Server) queueStatus(c echo.Context) error {
	detail, page, err := s.queueDetail(c)
	if err != nil {
		return err
	}
	o := &detail.Options
	out := queueStatusJSON{
		Queue: queueStatusHeadJSON{
			ID: detail.ID.String(), Name: detail.Name, Namespace: detail.Namespace, Task: detail.Task,
			Priority: o.Priority, CreatedAt: formatMillis(detail.CreatedAt),
			Config: queueConfigJSON{
				LeaseTime: o.LeaseTime, RetryLimit: o.RetryLimit, RetryDelay: o.RetryDelay, TTL: o.TTL,
				MaxQueueSize: o.MaxSize, DeadLetterQueue: o.DeadLetterQueue,
			},
		},
		Partitions: make([]partitionStatusJSON, len(detail.Page)),
		Totals:     queueTotalsJSON{counts(detail.Counts), counts(detail.Counts)},
		Swept:      sweptJSON(detail.Swept),
		Pagination: page,
	}
	for i := range detail.Page {
		p := &detail.Page[i]
		out.Partitions[i] = partitionStatusJSON{
			ID: p.ID.String(), Name: p.Name, CreatedAt: formatMillis(p.CreatedAt),
			Messages: counts(p.Counts), Stats: counts(p.Counts), Cursor: consumedJSON{TotalConsumed: p.Consumed, TotalExpired: p.Expired},
			LastActivity: millisOrNull(p.ActiveAt), OldestMessage: millisOrNull(p.Oldest), NewestMessage: millisOrNull(p.Newest),
		}
	}
	return answerValue(c, http.StatusOK, out)
}
