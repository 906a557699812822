package observe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// defaultLimit and maxLimit bound the elements of a list.
	defaultLimit, maxLimit = 100, 1000
)

func limitOf(p *wire.Params) int {
	return wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), defaultLimit), maxLimit)
}

// startOf reads where a list by name starts: after cursor, or at from.
func startOf(p *wire.Params) stats.Start {
	if p.QueryParams().Has("cursor") {
		return stats.Start{Name: p.Text("cursor"), After: true}
	}
	return stats.Start{Name: p.Text("from")}
}

// names reads the queue and the group of the path.
func names(p *wire.Params) (queueName, group string, err error) {
	queueName, group = p.PathName("queue"), p.PathName("group")
	p.Check(wire.MayRead(p.Ctx(), queueName))
	return queueName, group, p.Err
}

// GroupsOfQueue serves GET /api/v1/resources/queues/:queue/groups.
func (h *Handlers) GroupsOfQueue(p *wire.Params) (any, error) {
	name := p.PathName("queue")
	p.Check(wire.MayRead(p.Ctx(), name))
	from, limit := startOf(p), limitOf(p)
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Progress.OfQueue(p.Ctx(), name, from, limit)
	return wire.Fields{
		"queueName", name, "paused", found.Paused, "partitions", found.Partitions, "stored", found.Stored, "countsAreLowerBounds", found.AtLeast,
		"groups", wire.Each(found.Groups, figures), "pagination", wire.Fields{"limit", limit, "next", found.Next},
	}, err
}

// figures describes a group of one queue.
func figures(g *stats.GroupFigures) wire.Fields {
	var mode *string
	var startAt time.Time
	if g.Mode != queue.SubscribeAll {
		text := string(g.Mode)
		mode, startAt = &text, g.StartAt
	}
	return wire.Fields{
		"name", g.Name, "paused", g.Paused, "subscriptionMode", mode, "subscriptionTimestamp", startAt, "createdAt", g.CreatedAt,
		"joining", g.Joining, "countsAreLowerBounds", g.AtLeast, "lag", g.Lag, "oldestSeconds", seconds(g.Oldest), "partitionsWithLag", g.Lagging,
		"due", g.Due, "leased", g.Leased, "resting", g.Resting, "failing", g.Failing, "leasedMessages", g.Held,
		"deadLetters", g.Dead, "moreDeadLetters", g.DeadAtLeast,
	}
}

// ShowGroupOfQueue serves GET /api/v1/consumer-groups/:group/queues/:queue.
func (h *Handlers) ShowGroupOfQueue(p *wire.Params) (any, error) {
	queueName, group, err := names(p)
	if err != nil {
		return nil, err
	}
	limit := limitOf(p)
	found, err := h.Progress.Show(p.Ctx(), queueName, group, limit)
	lists := wire.Fields{"due", h.places(&found.Due, limit), "leased", h.places(&found.Leased, limit), "resting", h.places(&found.Resting, limit)}
	return wire.Fields{"queueName", queueName, "queuePaused", found.QueuePaused, "group", figures(&found.GroupFigures), "places", lists, "timestamp", time.Now()}, err
}

// Places serves GET /api/v1/consumer-groups/:group/queues/:queue/partitions.
func (h *Handlers) Places(p *wire.Params) (any, error) {
	queueName, group, err := names(p)
	ask := stats.PlaceQuery{List: stats.PlacesNamed, Limit: limitOf(p)}
	switch text := p.QueryParam("list"); stats.PlaceList(text) {
	case "", stats.PlacesNamed:
		ask.From.Start = startOf(p)
	case stats.PlacesDue, stats.PlacesLeased, stats.PlacesResting:
		ask.List, ask.From = stats.PlaceList(text), instantOf(p)
	default:
		p.Check(queue.Invalidf("list is %q: it must be name, due, leased or resting", wire.Clip(text)))
	}
	if err != nil || p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Progress.Places(p.Ctx(), queueName, group, ask)
	return h.places(&found, ask.Limit), err
}

// instantOf reads the cursor of a list by instant.
func instantOf(p *wire.Params) stats.PlaceStart {
	text := p.QueryParam("cursor")
	if text == "" {
		return stats.PlaceStart{}
	}
	before, after, _ := strings.Cut(text, "_")
	micros, err := strconv.ParseInt(before, 10, 64)
	tie, badTie := strconv.ParseInt(after, 10, 64)
	if err != nil || badTie != nil || micros <= 0 || micros > wire.MaxMicros || tie < 0 || tie > stats.MaxTies {
		p.Check(queue.Invalidf("cursor is %q: use what pagination.next of the page before says", wire.Clip(text)))
	}
	return stats.PlaceStart{ReadyAt: time.UnixMicro(micros), Tie: tie}
}

// places describes a part of the places of a group.
func (h *Handlers) places(found *stats.Places, limit int) wire.Fields {
	var next *string
	if n := found.Next; n != nil {
		text := n.Name
		if !n.ReadyAt.IsZero() {
			text = fmt.Sprintf("%d_%d", n.ReadyAt.UnixMicro(), n.Tie)
		}
		next = &text
	}
	return wire.Fields{"partitions", wire.Each(found.List, h.place), "pagination", wire.Fields{"limit", limit, "next", next, "incomplete", found.Incomplete}}
}

func (h *Handlers) place(one *stats.Place) wire.Fields {
	var cause *string
	if one.Cause != "" {
		cause = &one.Cause
	}
	var holder any
	if who, known := h.Holders.Of(one.Lease); known {
		holder = wire.Fields{"caller", who.Caller, "userAgent", who.Agent}
	}
	return wire.Fields{
		"partition", one.Partition, "partitionId", one.ID, "paused", one.Paused, "readyAt", one.ReadyAt, "cause", cause, "startsAt", one.StartsAt,
		"lag", one.Lag, "oldestSeconds", seconds(one.Age), "leaseId", one.Lease, "leasedAt", one.LeasedAt, "leaseUntil", one.LeaseUntil, "holder", holder,
		"leasedMessages", one.Held, "deliveries", one.Deliveries, "failures", one.Failures, "consumed", one.Consumed, "expired", one.Expired,
		"lastConsumedAt", one.ConsumedAt,
	}
}

// PreviewSeek serves GET /api/v1/consumer-groups/:group/queues/:queue/seek.
func (h *Handlers) PreviewSeek(p *wire.Params) (any, error) {
	queueName, group, err := names(p)
	to := stats.SeekTarget{End: wire.IsTrue(p.QueryParam("toEnd")), Partition: p.Name("partition")}
	given := 0
	for _, one := range []bool{to.End, wire.IsTrue(p.QueryParam("toBeginning")), p.QueryParam("timestamp") != ""} {
		if one {
			given++
		}
	}
	if text := p.QueryParam("timestamp"); text != "" {
		at, badInstant := wire.Timestamp("timestamp", text, "")
		p.Check(badInstant)
		to.At = at
	}
	if given != 1 {
		p.Check(queue.Invalidf("send one of toEnd=true, toBeginning=true and timestamp"))
	}
	if err != nil || p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Progress.PreviewSeek(p.Ctx(), queueName, group, to)
	return wire.Fields{
		"consumerGroup", group, "queueName", queueName, "partitionName", to.Partition, "messagesAgain", found.Again, "messagesSkipped", found.Skipped,
		"leasesEnded", found.Leases, "partitionsExamined", found.Cursors, "countsAreLowerBounds", found.AtLeast,
	}, err
}

// Partitions serves GET /api/v1/resources/queues/:queue/partitions.
func (h *Handlers) Partitions(p *wire.Params) (any, error) {
	name := p.PathName("queue")
	p.Check(wire.MayRead(p.Ctx(), name))
	f := stats.HeatFilter{Group: p.Text("consumerGroup"), Limit: limitOf(p)}
	switch order := p.QueryParam("order"); order {
	case "", "name":
		f.From = startOf(p)
	case "worst":
		f.Worst = true
	default:
		p.Check(queue.Invalidf("order is %q: it must be name or worst", wire.Clip(order)))
	}
	if p.Err != nil {
		return nil, p.Err
	}
	found, next, err := h.Progress.Heat(p.Ctx(), name, f)
	return wire.Fields{"partitions", wire.Each(found, func(one *stats.Heat) wire.Fields {
		var group *string
		if one.Group != "" {
			group = &one.Group
		}
		return wire.Fields{
			"id", one.ID, "name", one.Name, "paused", one.Paused, "stored", one.Stored, "lag", one.Lag, "oldestSeconds", seconds(one.Age),
			"failures", one.Failures, "leased", one.Leased, "resting", one.Resting, "consumerGroup", group, "deadLetters", one.Dead,
			"moreDeadLetters", one.DeadAtLeast, "lastPushAt", one.PushedAt,
		}
	}), "pagination", wire.Fields{"limit", f.Limit, "next", next}}, err
}

func seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }
