package observe

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
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

// ListGroups serves GET /api/v1/consumer-groups.
func (h *Handlers) ListGroups(p *wire.Params) (any, error) {
	groups, err := h.Groups.List(p.Ctx(), readable(p))
	return wire.Each(groups, groupRow), err
}

// groupRow describes a group of one queue. Queen MQ has no totalLag.
func groupRow(g *stats.Group) wire.Fields {
	var mode *string
	var startAt, createdAt time.Time
	if g.Mode != queue.SubscribeAll {
		text := string(g.Mode)
		mode, startAt, createdAt = &text, g.StartAt, g.CreatedAt
	}
	return wire.Fields{
		"name", g.Name, "topics", []string{g.Queue}, "queueName", g.Queue, "members", g.Partitions,
		"partitionsWithLag", g.Lagging, "totalLag", g.Lag, "maxTimeLag", seconds(g.Oldest), "state", groupState(g),
		"paused", g.Paused, "subscriptionMode", mode, "subscriptionTimestamp", startAt, "subscriptionCreatedAt", createdAt,
	}
}

func groupState(g *stats.Group) string {
	switch {
	case g.Oldest <= laggingState:
		return "Stable"
	case g.ConsumedAt.IsZero():
		return "Dead"
	default:
		return "Lagging"
	}
}

// groupQueueJSON is one queue of GET /api/v1/consumer-groups/:group.
type groupQueueJSON struct {
	Partitions []cursorJSON `json:"partitions"`
	// Truncated says that the group has more cursors than limit. Queen MQ does not
	// have it.
	Truncated bool `json:"truncated,omitzero"`
}

// cursorJSON is the cursor of a group in one partition. WorkerID is the id of
// the live lease. TotalExpired counts the expired messages that pops of the
// group skipped; Queen MQ does not have it.
type cursorJSON struct {
	Partition      string    `json:"partition"`
	WorkerID       queue.ID  `json:"workerId"`
	LastConsumedAt time.Time `json:"lastConsumedAt"`
	TotalConsumed  int64     `json:"totalConsumed"`
	TotalExpired   int64     `json:"totalExpired"`
	OffsetLag      int64     `json:"offsetLag"`
	TimeLagSeconds int64     `json:"timeLagSeconds"`
	LeaseActive    bool      `json:"leaseActive"`
}

// ShowGroup serves GET /api/v1/consumer-groups/:group.
func (h *Handlers) ShowGroup(p *wire.Params) (any, error) {
	name := p.PathName("group")
	if p.Err != nil {
		return nil, p.Err
	}
	return h.group(p, name)
}

// group lists the cursors of one group by queue.
func (h *Handlers) group(p *wire.Params, name string) (any, error) {
	queues, err := h.Groups.Group(p.Ctx(), name, listLimit(p), readable(p))
	out := make(map[string]groupQueueJSON, len(queues))
	for _, q := range queues {
		out[q.Queue] = groupQueueJSON{Partitions: wire.Each(q.Partitions, toCursorJSON), Truncated: q.Truncated}
	}
	return out, err
}

func toCursorJSON(p *stats.PartitionProgress) cursorJSON {
	return cursorJSON{
		Partition: p.Partition, WorkerID: p.Lease, LastConsumedAt: p.ConsumedAt, TotalConsumed: p.Consumed,
		TotalExpired: p.Expired, OffsetLag: p.Lag, TimeLagSeconds: seconds(p.Age), LeaseActive: !p.Lease.IsZero(),
	}
}

// laggingJSON is an element of GET /api/v1/consumer-groups/lagging.
type laggingJSON struct {
	ConsumerGroup      string    `json:"consumer_group"`
	QueueName          string    `json:"queue_name"`
	PartitionName      string    `json:"partition_name"`
	PartitionID        queue.ID  `json:"partition_id"`
	WorkerID           queue.ID  `json:"worker_id"`
	OffsetLag          int64     `json:"offset_lag"`
	TimeLagSeconds     int64     `json:"time_lag_seconds"`
	LagHours           float64   `json:"lag_hours"`
	OldestUnconsumedAt time.Time `json:"oldest_unconsumed_at"`
	LastConsumedAt     time.Time `json:"last_consumed_at"`
}

// LaggingGroups serves GET /api/v1/consumer-groups/lagging. With detail=true it
// shows the group whose name is "lagging".
func (h *Handlers) LaggingGroups(p *wire.Params) (any, error) {
	if wire.IsTrue(p.QueryParam("detail")) {
		return h.group(p, "lagging")
	}
	least := int64(laggingDefault)
	if text := strings.TrimSpace(p.QueryParam("minLagSeconds")); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt32 {
			return nil, queue.Invalidf("minLagSeconds is %q: it must be a whole number of seconds between 0 and %d", wire.Clip(text), math.MaxInt32)
		}
		least = n
	}
	cursors, err := h.Groups.Lagging(p.Ctx(), time.Duration(least)*time.Second, listLimit(p), readable(p))
	return wire.Each(cursors, func(p *stats.LaggingPartition) laggingJSON {
		return laggingJSON{
			ConsumerGroup: p.Group, QueueName: p.Queue, PartitionName: p.Partition, PartitionID: p.PartitionID,
			WorkerID: p.Lease, OffsetLag: p.Lag, TimeLagSeconds: seconds(p.Age),
			LagHours: math.Round(p.Age.Hours()*100) / 100, OldestUnconsumedAt: p.Oldest, LastConsumedAt: p.ConsumedAt,
		}
	}), err
}

// listLimit reads how many cursors to list.
func listLimit(p *wire.Params) int {
	return wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), groupLimit), groupLimitMax)
}
