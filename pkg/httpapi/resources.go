package httpapi

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/stats"
)

// maxListedPartitions is how many partitions GET /resources/queues/:queue and
// GET /status/queues/:queue list; the totals are always those of all.
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

// countsJSON are messages by state. Nothing is ever failed: what failed is
// pending again, or dead-lettered.
type countsJSON struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
	DeadLetter int64 `json:"deadLetter"`
}

func counts(c stats.Counts) countsJSON {
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

// partitionsPageJSON says which partitions are listed; next is the cursor of
// those that follow, null when there are none.
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

// queues serves GET /api/v1/resources/queues: all of them, newest first.
func (s *Server) queues(c echo.Context) error {
	queues, err := s.deps.Resources.Queues(c.Request().Context(), stats.QueueFilter{})
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, queuesJSON{listQueues(queues)})
}

func listQueues(queues []stats.Queue) []listedQueueJSON {
	list := make([]listedQueueJSON, len(queues))
	for i := range queues {
		q := &queues[i]
		list[i] = listedQueueJSON{
			ID: q.ID.String(), Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: formatMillis(q.CreatedAt),
			Partitions: q.Partitions,
			Messages:   queueCountsJSON{Total: q.Counts.Total, Pending: q.Counts.Pending, Processing: q.Counts.Processing},
		}
	}
	return list
}

// queue serves GET /api/v1/resources/queues/:queue.
func (s *Server) queue(c echo.Context) error {
	detail, page, err := s.queueDetail(c)
	if err != nil {
		return err
	}
	out := queueJSON{
		ID: detail.ID.String(), Name: detail.Name, Namespace: detail.Namespace, Task: detail.Task,
		CreatedAt: formatMillis(detail.CreatedAt), Partitions: make([]partitionJSON, len(detail.Page)),
		Totals: counts(detail.Counts), Swept: sweptJSON(detail.Swept), Pagination: page,
	}
	for i := range detail.Page {
		p := &detail.Page[i]
		out.Partitions[i] = partitionJSON{
			ID: p.ID.String(), Name: p.Name, CreatedAt: formatMillis(p.CreatedAt), Stats: counts(p.Counts),
			OldestMessage: millisOrNull(p.Oldest), NewestMessage: millisOrNull(p.Newest),
		}
	}
	return answerValue(c, http.StatusOK, out)
}

// queueDetail reads a queue with the partitions the request asks for: after the
// one named by cursor, limit of them.
func (s *Server) queueDetail(c echo.Context) (detail stats.QueueDetail, page partitionsPageJSON, err error) {
	name, err := pathName(c, "queue")
	if err != nil {
		return detail, page, err
	}
	var after *string
	if c.QueryParams().Has("cursor") {
		text, err := textQuery(c, "cursor")
		if err != nil {
			return detail, page, err
		}
		after = &text
	}
	page.Limit = between(1, leadingInt(c.QueryParam("limit"), maxListedPartitions), maxListedPartitions)
	detail, err = s.deps.Resources.Queue(c.Request().Context(), name, after, page.Limit)
	if err == nil && detail.More {
		page.Next = &detail.Page[len(detail.Page)-1].Name
	}
	return detail, page, err
}

type tagCountsJSON struct {
	Total   int64 `json:"total"`
	Pending int64 `json:"pending"`
}

type namespaceJSON struct {
	Namespace string `json:"namespace"`
	tagJSON
}

type taskJSON struct {
	Task string `json:"task"`
	tagJSON
}

type tagJSON struct {
	Queues     int64         `json:"queues"`
	Partitions int64         `json:"partitions"`
	Messages   tagCountsJSON `json:"messages"`
}

func tagged(t stats.Tag) tagJSON {
	return tagJSON{t.Queues, t.Partitions, tagCountsJSON{t.Counts.Total, t.Counts.Pending}}
}

// namespaces serves GET /api/v1/resources/namespaces.
func (s *Server) namespaces(c echo.Context) error {
	found, err := s.deps.Resources.Namespaces(c.Request().Context())
	if err != nil {
		return err
	}
	out := struct {
		Namespaces []namespaceJSON `json:"namespaces"`
	}{make([]namespaceJSON, len(found))}
	for i, tag := range found {
		out.Namespaces[i] = namespaceJSON{tag.Name, tagged(tag)}
	}
	return answerValue(c, http.StatusOK, out)
}

// tasks serves GET /api/v1/resources/tasks.
func (s *Server) tasks(c echo.Context) error {
	found, err := s.deps.Resources.Tasks(c.Request().Context())
	if err != nil {
		return err
	}
	out := struct {
		Tasks []taskJSON `json:"tasks"`
	}{make([]taskJSON, len(found))}
	for i, tag := range found {
		out.Tasks[i] = taskJSON{tag.Name, tagged(tag)}
	}
	return answerValue(c, http.StatusOK, out)
}

type spreadJSON struct {
	Avg    int64 `json:"avg"`
	Median int64 `json:"median"`
	Min    int64 `json:"min"`
	Max    int64 `json:"max"`
}

type lagJSON struct {
	Time   spreadJSON `json:"time"`
	Offset spreadJSON `json:"offset"`
}

type throughputJSON struct {
	IngestedPerSecond  float64 `json:"ingestedPerSecond"`
	ProcessedPerSecond float64 `json:"processedPerSecond"`
}

type overviewJSON struct {
	Queues     int64          `json:"queues"`
	Partitions int64          `json:"partitions"`
	Namespaces int64          `json:"namespaces"`
	Tasks      int64          `json:"tasks"`
	Messages   countsJSON     `json:"messages"`
	Lag        lagJSON        `json:"lag"`
	Throughput throughputJSON `json:"throughput"`
	Timestamp  string         `json:"timestamp"`
	// StatsAge is 0: the numbers are live.
	StatsAge int64 `json:"statsAge"`
}

// overview serves GET /api/v1/resources/overview. The throughput is that of this
// instance in the last minute.
func (s *Server) overview(c echo.Context) error {
	o, err := s.deps.Resources.Overview(c.Request().Context())
	if err != nil {
		return err
	}
	now := time.Now()
	return answerValue(c, http.StatusOK, overviewJSON{
		Queues: o.Queues, Partitions: o.Partitions, Namespaces: o.Namespaces, Tasks: o.Tasks, Messages: counts(o.Counts),
		Lag: lagJSON{Time: spreadJSON(o.TimeLag), Offset: spreadJSON(o.OffsetLag)},
		Throughput: throughputJSON{
			IngestedPerSecond:  s.deps.Metrics.ingested.perSecond(now),
			ProcessedPerSecond: s.deps.Metrics.processed.perSecond(now),
		},
		Timestamp: formatMillis(now),
	})
}
