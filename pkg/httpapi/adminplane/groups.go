package adminplane

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

const (
	// groupLimit is how many cursors one answer lists by default, and
	// groupLimitMax the largest limit.
	groupLimit    = 10_000
	groupLimitMax = 100_000
	// laggingDefault is the time lag in seconds above which GET
	// /consumer-groups/lagging lists a cursor by default.
	laggingDefault = 3600
	// laggingState is the time lag above which the state of a group is Lagging.
	laggingState = 300 * time.Second
)

// groupJSON is an element of GET /api/v1/consumer-groups. Queen MQ has no
// TotalLag.
type groupJSON struct {
	Name                  string   `json:"name"`
	Topics                []string `json:"topics"`
	QueueName             string   `json:"queueName"`
	Members               int64    `json:"members"`
	PartitionsWithLag     int64    `json:"partitionsWithLag"`
	TotalLag              int64    `json:"totalLag"`
	MaxTimeLag            int64    `json:"maxTimeLag"`
	State                 string   `json:"state"`
	SubscriptionMode      *string  `json:"subscriptionMode"`
	SubscriptionTimestamp *string  `json:"subscriptionTimestamp"`
	SubscriptionCreatedAt *string  `json:"subscriptionCreatedAt"`
}

// ListGroups serves GET /api/v1/consumer-groups.
func (h *Handlers) ListGroups(c echo.Context) error {
	groups, err := h.GroupReader.List(c.Request().Context())
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, each(groups, toGroupJSON))
}

func toGroupJSON(g *stats.Group) groupJSON {
	out := groupJSON{
		Name: g.Name, Topics: []string{g.Queue}, QueueName: g.Queue, Members: g.Partitions,
		PartitionsWithLag: g.Lagging, TotalLag: g.Lag, MaxTimeLag: wholeSeconds(g.Oldest), State: groupState(g),
	}
	if g.Mode != queue.SubscribeAll {
		out.SubscriptionMode = orNull(string(g.Mode))
		out.SubscriptionTimestamp, out.SubscriptionCreatedAt = millisOrNull(g.StartAt), millisOrNull(g.CreatedAt)
	}
	return out
}

func groupState(g *stats.Group) string {
	switch {
	case g.ConsumedAt.IsZero():
		return "Dead"
	case g.Oldest > laggingState:
		return "Lagging"
	default:
		return "Stable"
	}
}

// groupQueueJSON is one queue of GET /api/v1/consumer-groups/:group.
type groupQueueJSON struct {
	Partitions []cursorJSON `json:"partitions"`
	// Truncated says that the group has more cursors than limit. Queen MQ does not
	// have it.
	Truncated bool `json:"truncated,omitempty"`
}

// cursorJSON is the cursor of a group in one partition. WorkerID is the id of
// the live lease. TotalExpired counts the expired messages that pops of the
// group skipped; Queen MQ does not have it.
type cursorJSON struct {
	Partition      string  `json:"partition"`
	WorkerID       *string `json:"workerId"`
	LastConsumedAt *string `json:"lastConsumedAt"`
	TotalConsumed  int64   `json:"totalConsumed"`
	TotalExpired   int64   `json:"totalExpired"`
	OffsetLag      int64   `json:"offsetLag"`
	TimeLagSeconds int64   `json:"timeLagSeconds"`
	LeaseActive    bool    `json:"leaseActive"`
}

// ShowGroup serves GET /api/v1/consumer-groups/:group.
func (h *Handlers) ShowGroup(c echo.Context) error {
	p := wire.Params{Context: c}
	name := p.PathName("group")
	if p.Err != nil {
		return p.Err
	}
	return h.answerGroup(c, name)
}

// answerGroup lists the cursors of one group by queue.
func (h *Handlers) answerGroup(c echo.Context, name string) error {
	queues, err := h.GroupReader.Group(c.Request().Context(), name, listLimit(c))
	if err != nil {
		return err
	}
	out := make(map[string]groupQueueJSON, len(queues))
	for _, q := range queues {
		out[q.Queue] = groupQueueJSON{Partitions: each(q.Partitions, toCursorJSON), Truncated: q.Truncated}
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
}

func toCursorJSON(p *stats.PartitionProgress) cursorJSON {
	return cursorJSON{
		Partition: p.Partition, WorkerID: idOrNull(p.Lease), LastConsumedAt: millisOrNull(p.ConsumedAt), TotalConsumed: p.Consumed,
		TotalExpired: p.Expired, OffsetLag: p.Lag, TimeLagSeconds: wholeSeconds(p.Age), LeaseActive: !p.Lease.IsZero(),
	}
}

// laggingJSON is an element of GET /api/v1/consumer-groups/lagging.
type laggingJSON struct {
	ConsumerGroup      string  `json:"consumer_group"`
	QueueName          string  `json:"queue_name"`
	PartitionName      string  `json:"partition_name"`
	PartitionID        string  `json:"partition_id"`
	WorkerID           *string `json:"worker_id"`
	OffsetLag          int64   `json:"offset_lag"`
	TimeLagSeconds     int64   `json:"time_lag_seconds"`
	LagHours           float64 `json:"lag_hours"`
	OldestUnconsumedAt *string `json:"oldest_unconsumed_at"`
	LastConsumedAt     *string `json:"last_consumed_at"`
}

// LaggingGroups serves GET /api/v1/consumer-groups/lagging. With detail=true it
// shows the group whose name is "lagging".
func (h *Handlers) LaggingGroups(c echo.Context) error {
	if wire.IsTrue(c.QueryParam("detail")) {
		return h.answerGroup(c, "lagging")
	}
	seconds := int64(laggingDefault)
	if text := strings.TrimSpace(c.QueryParam("minLagSeconds")); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > maxOption {
			return queue.Invalidf("minLagSeconds is %q: it must be a whole number of seconds between 0 and %d", wire.Clip(text), maxOption)
		}
		seconds = n
	}
	cursors, err := h.GroupReader.Lagging(c.Request().Context(), time.Duration(seconds)*time.Second, listLimit(c))
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, each(cursors, func(p *stats.LaggingPartition) laggingJSON {
		return laggingJSON{
			ConsumerGroup: p.Group, QueueName: p.Queue, PartitionName: p.Partition, PartitionID: p.PartitionID.String(),
			WorkerID: idOrNull(p.Lease), OffsetLag: p.Lag, TimeLagSeconds: wholeSeconds(p.Age),
			LagHours: math.Round(p.Age.Hours()*100) / 100, OldestUnconsumedAt: millisOrNull(p.Oldest), LastConsumedAt: millisOrNull(p.ConsumedAt),
		}
	}))
}

// listLimit reads how many cursors to list.
func listLimit(c echo.Context) int {
	return wire.Clamp(1, wire.LeadingInt(c.QueryParam("limit"), groupLimit), groupLimitMax)
}

func wholeSeconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }
