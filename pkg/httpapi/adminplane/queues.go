package adminplane

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"

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
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Namespace  string          `json:"namespace"`
	Task       string          `json:"task"`
	CreatedAt  string          `json:"createdAt"`
	Partitions int64           `json:"partitions"`
	Messages   queueCountsJSON `json:"messages"`
}

type queuesJSON struct {
	Queues []listedQueueJSON `json:"queues"`
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
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	CreatedAt     string     `json:"createdAt"`
	Stats         countsJSON `json:"stats"`
	OldestMessage *string    `json:"oldestMessage"`
	NewestMessage *string    `json:"newestMessage"`
}

// partitionsPageJSON describes the listed partitions. Next is the cursor of the
// next page; null on the last page.
type partitionsPageJSON struct {
	Limit int     `json:"limit"`
	Next  *string `json:"next"`
}

type queueJSON struct {
	ID         string             `json:"id"`
	Name       string             `json:"name"`
	Namespace  string             `json:"namespace"`
	Task       string             `json:"task"`
	CreatedAt  string             `json:"createdAt"`
	Partitions []partitionJSON    `json:"partitions"`
	Totals     countsJSON         `json:"totals"`
	Swept      sweptJSON          `json:"swept"`
	Pagination partitionsPageJSON `json:"pagination"`
}

// Queues serves GET /api/v1/resources/queues: all of them, newest first.
func (h *Handlers) Queues(c echo.Context) error {
	queues, err := h.Resources.Queues(c.Request().Context(), stats.QueueFilter{})
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, queuesJSON{each(queues, toListedQueue)})
}

func toListedQueue(q *stats.Queue) listedQueueJSON {
	return listedQueueJSON{
		ID: q.ID.String(), Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: wire.FormatMillis(q.CreatedAt),
		Partitions: q.Partitions,
		Messages:   queueCountsJSON{Total: q.Counts.Total, Pending: q.Counts.Pending, Processing: q.Counts.Processing},
	}
}

// Queue serves GET /api/v1/resources/queues/:queue.
func (h *Handlers) Queue(c echo.Context) error {
	detail, page, err := h.queueDetail(c)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, queueJSON{
		ID: detail.ID.String(), Name: detail.Name, Namespace: detail.Namespace, Task: detail.Task,
		CreatedAt: wire.FormatMillis(detail.CreatedAt), Totals: toCountsJSON(detail.Counts), Swept: sweptJSON(detail.Swept), Pagination: page,
		Partitions: each(detail.Page, func(p *stats.Partition) partitionJSON {
			return partitionJSON{
				ID: p.ID.String(), Name: p.Name, CreatedAt: wire.FormatMillis(p.CreatedAt), Stats: toCountsJSON(p.Counts),
				OldestMessage: millisOrNull(p.Oldest), NewestMessage: millisOrNull(p.Newest),
			}
		}),
	})
}

// queueDetail reads a queue with at most limit partitions after the partition
// that cursor names.
func (h *Handlers) queueDetail(c echo.Context) (detail stats.QueueDetail, page partitionsPageJSON, err error) {
	p := wire.Params{Context: c}
	name := p.PathName("queue")
	var after *string
	if c.QueryParams().Has("cursor") {
		text := p.Text("cursor")
		after = &text
	}
	if p.Err != nil {
		return detail, page, p.Err
	}
	page.Limit = wire.Clamp(1, wire.LeadingInt(c.QueryParam("limit"), maxListedPartitions), maxListedPartitions)
	detail, err = h.Resources.Queue(c.Request().Context(), name, after, page.Limit)
	if err == nil && detail.More {
		page.Next = &detail.Page[len(detail.Page)-1].Name
	}
	return detail, page, err
}
