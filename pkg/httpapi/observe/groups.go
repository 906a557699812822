package observe

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// groupLimit is the default number of cursors in an answer. groupLimitMax is the
	// largest number.
	groupLimit    = 10_000
	groupLimitMax = 100_000
	// laggingDefault is the default of minLagSeconds: GET /consumer-groups/lagging lists
	// a cursor if its time lag in seconds is above this value.
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
func groupRow(g *stats.Group) api.Group {
	row := api.Group{
		Name: g.Name, Topics: []string{g.Queue}, QueueName: g.Queue, Members: g.Partitions, PartitionsWithLag: g.Lagging, TotalLag: g.Lag,
		MaxTimeLag: wire.Seconds(g.Oldest), State: groupState(g), Paused: g.Paused,
	}
	if g.Mode != queue.SubscribeAll {
		row.SubscriptionMode, row.SubscriptionTimestamp, row.SubscriptionCreatedAt = (*string)(&g.Mode), &g.StartAt, &g.CreatedAt
	}
	return row
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
	out := make(api.GroupDetail, len(queues))
	for _, q := range queues {
		out[q.Queue] = api.GroupQueue{Partitions: wire.Each(q.Partitions, groupCursor), Truncated: q.Truncated}
	}
	return out, err
}

func groupCursor(p *stats.PartitionProgress) api.GroupCursor {
	return api.GroupCursor{
		Partition: p.Partition, WorkerID: wire.IDOrNull(p.Lease), LastConsumedAt: &p.ConsumedAt, TotalConsumed: p.Consumed,
		TotalExpired: p.Expired, OffsetLag: p.Lag, TimeLagSeconds: wire.Seconds(p.Age), LeaseActive: !p.Lease.IsZero(),
	}
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
	return wire.Each(cursors, func(p *stats.LaggingPartition) api.LaggingPlace {
		return api.LaggingPlace{
			ConsumerGroup: p.Group, QueueName: p.Queue, PartitionName: p.Partition, PartitionID: p.PartitionID.String(),
			WorkerID: wire.IDOrNull(p.Lease), OffsetLag: p.Lag, TimeLagSeconds: wire.Seconds(p.Age),
			LagHours: math.Round(p.Age.Hours()*100) / 100, OldestUnconsumedAt: &p.Oldest, LastConsumedAt: &p.ConsumedAt,
		}
	}), err
}

// listLimit reads the maximum number of cursors to list.
func listLimit(p *wire.Params) int {
	return wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), groupLimit), groupLimitMax)
}
