package adminplane

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"

	"github.com/belfry-mq/belfry/pkg/stats"
)

// maxListedPartitions is how many partitions GET /resources/queues/:queue and
// GET /status/queues/:queue list. The totals always cover all partitions.
const maxListedPartitions = 10_000

type queueCountsJSON struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
}

type listedQueueJSON struct {
	ID         queue.ID        `json:"id"`
	Name       string          `json:"name"`
	Namespace  string          `json:"namespace"`
	Task       string          `json:"task"`
	CreatedAt  time.Time       `json:"createdAt"`
	Partitions int64           `json:"partitions"`
	Messages   queueCountsJSON `json:"messages"`
}

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
	Stats         countsJSON `json:"stats"`
	OldestMessage time.Time  `json:"oldestMessage"`
	NewestMessage time.Time  `json:"newestMessage"`
}

// partitionsPageJSON describes the listed partitions. Next is the cursor of the
// next page; null on the last page.
type partitionsPageJSON struct {
	Limit int     `json:"limit"`
	Next  *string `json:"next"`
}

// Queues serves GET /api/v1/resources/queues: all of them, newest first.
func (h *Handlers) Queues(p *wire.Params) (any, error) {
	queues, err := h.Resources.Queues(p.Ctx(), stats.QueueFilter{})
	return wire.Fields{"queues", each(queues, toListedQueue)}, err
}

func toListedQueue(q *stats.Queue) listedQueueJSON {
	return listedQueueJSON{
		ID: q.ID, Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: q.CreatedAt, Partitions: q.Partitions,
		Messages: queueCountsJSON{Total: q.Counts.Total, Pending: q.Counts.Pending, Processing: q.Counts.Processing},
	}
}

// Queue serves GET /api/v1/resources/queues/:queue.
func (h *Handlers) Queue(p *wire.Params) (any, error) {
	detail, page, err := h.queueDetail(p)
	return wire.Fields{
		"id", detail.ID, "name", detail.Name, "namespace", detail.Namespace, "task", detail.Task, "createdAt", detail.CreatedAt,
		"partitions", each(detail.Page, func(p *stats.Partition) partitionJSON {
			return partitionJSON{
				ID: p.ID, Name: p.Name, CreatedAt: p.CreatedAt, Stats: toCountsJSON(p.Counts),
				OldestMessage: p.Oldest, NewestMessage: p.Newest,
			}
		}),
		"totals", toCountsJSON(detail.Counts), "swept", sweptJSON(detail.Swept), "pagination", page,
	}, err
}

// queueDetail reads a queue with at most limit partitions after the partition
// that cursor names.
func (h *Handlers) queueDetail(p *wire.Params) (detail stats.QueueDetail, page partitionsPageJSON, err error) {
	name := p.PathName("queue")
	var after *string
	if p.QueryParams().Has("cursor") {
		text := p.Text("cursor")
		after = &text
	}
	if p.Err != nil {
		return detail, page, p.Err
	}
	page.Limit = wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), maxListedPartitions), maxListedPartitions)
	detail, err = h.Resources.Queue(p.Ctx(), name, after, page.Limit)
	if err == nil && detail.More {
		page.Next = &detail.Page[len(detail.Page)-1].Name
	}
	return detail, page, err
}
