package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

const (
	// groupLimit is how many places one answer lists unless it is asked for
	// another number, and groupLimitMax the most it can be asked for.
	groupLimit    = 10_000
	groupLimitMax = 100_000
	// laggingDefault is the lag in seconds beyond which a place is lagging.
	laggingDefault = 3600
	// laggingState is the time lag beyond which a group is called Lagging.
	laggingState = 300 * time.Second
)

// groupRow is an element of GET /api/v1/consumer-groups (section 6.2). TotalLag
// is a number here: the reference has none.
type groupRow struct {
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

// listGroups serves GET /api/v1/consumer-groups.
func (s *Server) listGroups(c echo.Context) error {
	groups, err := s.deps.GroupReader.List(c.Request().Context())
	if err != nil {
		return err
	}
	rows := make([]groupRow, len(groups))
	for i, g := range groups {
		rows[i] = groupRow{
			Name: g.Name, Topics: []string{g.Queue}, QueueName: g.Queue, Members: g.Partitions,
			PartitionsWithLag: g.Lagging, TotalLag: g.Lag, MaxTimeLag: wholeSeconds(g.Oldest), State: groupState(g),
		}
		if g.Mode != queue.SubscribeAll {
			mode := string(g.Mode)
			rows[i].SubscriptionMode = &mode
			rows[i].SubscriptionTimestamp, rows[i].SubscriptionCreatedAt = millisOrNull(g.StartAt), millisOrNull(g.CreatedAt)
		}
	}
	return answerValue(c, http.StatusOK, rows)
}

func groupState(g stats.Group) string {
	switch {
	case g.ConsumedAt.IsZero():
		return "Dead"
	case g.Oldest > laggingState:
		return "Lagging"
	default:
		return "Stable"
	}
}

// groupQueue is what GET /api/v1/consumer-groups/:group tells of one queue.
type groupQueue struct {
	Partitions []groupPlace `json:"partitions"`
	// Truncated is ours: there are more than limit.
	Truncated bool `json:"truncated,omitempty"`
}

// groupPlace is one partition of it. WorkerID is the id of the live lease;
// TotalExpired is ours: what the group's pops found expired.
type groupPlace struct {
	Partition      string  `json:"partition"`
	WorkerID       *string `json:"workerId"`
	LastConsumedAt *string `json:"lastConsumedAt"`
	TotalConsumed  int64   `json:"totalConsumed"`
	TotalExpired   int64   `json:"totalExpired"`
	OffsetLag      int64   `json:"offsetLag"`
	TimeLagSeconds int64   `json:"timeLagSeconds"`
	LeaseActive    bool    `json:"leaseActive"`
}

// showGroup serves GET /api/v1/consumer-groups/:group.
func (s *Server) showGroup(c echo.Context) error {
	name, err := pathName(c, "group")
	if err != nil {
		return err
	}
	return s.answerGroup(c, name)
}

func (s *Server) answerGroup(c echo.Context, name string) error {
	queues, err := s.deps.GroupReader.Group(c.Request().Context(), name, listLimit(c))
	if err != nil {
		return err
	}
	out := make(map[string]groupQueue, len(queues))
	for _, q := range queues {
		places := make([]groupPlace, len(q.Partitions))
		for i, p := range q.Partitions {
			places[i] = groupPlace{
				Partition: p.Partition, WorkerID: idOrNull(p.Lease), LastConsumedAt: millisOrNull(p.ConsumedAt), TotalConsumed: p.Consumed, TotalExpired: p.Expired,
				OffsetLag: p.Lag, TimeLagSeconds: wholeSeconds(p.Age), LeaseActive: !p.Lease.IsZero(),
			}
		}
		out[q.Queue] = groupQueue{Partitions: places, Truncated: q.Truncated}
	}
	return answerValue(c, http.StatusOK, out)
}

// laggingRow is an element of GET /api/v1/consumer-groups/lagging.
type laggingRow struct {
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

// laggingGroups serves GET /api/v1/consumer-groups/lagging. A group of that name
// is shown by /api/v1/consumer-groups/lagging?detail=true.
func (s *Server) laggingGroups(c echo.Context) error {
	if isTrue(c.QueryParam("detail")) {
		return s.answerGroup(c, "lagging")
	}
	seconds := int64(laggingDefault)
	if text := strings.TrimSpace(c.QueryParam("minLagSeconds")); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > maxOption {
			return queue.Invalidf("minLagSeconds is %q: it must be a whole number of seconds between 0 and %d", clip(text), maxOption)
		}
		seconds = n
	}
	places, err := s.deps.GroupReader.Lagging(c.Request().Context(), time.Duration(seconds)*time.Second, listLimit(c))
	if err != nil {
		return err
	}
	rows := make([]laggingRow, len(places))
	for i, p := range places {
		rows[i] = laggingRow{
			ConsumerGroup: p.Group, QueueName: p.Queue, PartitionName: p.Partition, PartitionID: p.PartitionID.String(),
			WorkerID: idOrNull(p.Lease), OffsetLag: p.Lag, TimeLagSeconds: wholeSeconds(p.Age),
			LagHours: math.Round(p.Age.Hours()*100) / 100, OldestUnconsumedAt: millisOrNull(p.Oldest), LastConsumedAt: millisOrNull(p.ConsumedAt),
		}
	}
	return answerValue(c, http.StatusOK, rows)
}

// listLimit reads how many places to list: more than the most is served as that.
func listLimit(c echo.Context) int {
	return between(1, leadingInt(c.QueryParam("limit"), groupLimit), groupLimitMax)
}

func wholeSeconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }
