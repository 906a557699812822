package observe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// defaultLimit and maxLimit are the default and the largest limit of a list.
	defaultLimit, maxLimit = 100, 1000
)

func limitOf(p *wire.Params) int {
	return wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), defaultLimit), maxLimit)
}

// startOf reads the start of a list by name: after the parameter cursor, or at the parameter from.
func startOf(p *wire.Params) stats.Start {
	if p.QueryParams().Has("cursor") {
		return stats.Start{Name: p.Text("cursor"), After: true}
	}
	return stats.Start{Name: p.Text("from")}
}

// names reads the queue and the group in the path. The sender must be allowed to read the queue.
func names(p *wire.Params) (queueName, group string, err error) {
	queueName, group = p.PathName("queue"), p.PathName("group")
	p.Check(wire.MayRead(p.Ctx(), queueName))
	return queueName, group, p.Err
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

// instantOf reads the cursor of a list that is sorted by instant.
func instantOf(p *wire.Params) stats.PlaceStart {
	text := p.QueryParam("cursor")
	if text == "" {
		return stats.PlaceStart{}
	}
	before, after, _ := strings.Cut(text, "_")
	micros, err := strconv.ParseInt(before, 10, 64)
	tie, badTie := strconv.ParseInt(after, 10, 64)
	if err != nil || badTie != nil || micros <= 0 || micros > wire.MaxMicros || tie < 0 || tie > stats.MaxTies {
		p.Check(queue.Invalidf("cursor is %q: use pagination.next of the previous page", wire.Clip(text)))
	}
	return stats.PlaceStart{ReadyAt: time.UnixMicro(micros), Tie: tie}
}

// places describes a page of the places of a group.
func (h *Handlers) places(found *stats.Places, limit int) api.PlaceList {
	var next *string
	if n := found.Next; n != nil {
		text := n.Name
		if !n.ReadyAt.IsZero() {
			text = fmt.Sprintf("%d_%d", n.ReadyAt.UnixMicro(), n.Tie)
		}
		next = &text
	}
	return api.PlaceList{
		Partitions: wire.Each(found.List, h.place), Pagination: api.PlacePage{Limit: int64(limit), Next: next, Incomplete: found.Incomplete},
	}
}

func (h *Handlers) place(one *stats.Place) api.Place {
	var holder *api.Holder
	if who, known := h.Holders.Of(one.Lease); known {
		holder = &who
	}
	return api.Place{
		Partition: one.Partition, PartitionID: one.ID.String(), Paused: one.Paused, ReadyAt: &one.ReadyAt, Cause: wire.OrNull(one.Cause),
		StartsAt: &one.StartsAt, Lag: one.Lag, OldestSeconds: wire.Seconds(one.Age), LeaseID: wire.IDOrNull(one.Lease), LeasedAt: &one.LeasedAt,
		LeaseUntil: &one.LeaseUntil, Holder: holder, LeasedMessages: one.Held, Deliveries: one.Deliveries, Failures: one.Failures,
		Consumed: one.Consumed, Expired: one.Expired, LastConsumedAt: &one.ConsumedAt,
	}
}

// PreviewSeek serves GET /api/v1/consumer-groups/:group/queues/:queue/seek.
func (h *Handlers) PreviewSeek(p *wire.Params) (any, error) {
	queueName, group, err := names(p)
	to := stats.SeekTarget{End: wire.IsTrue(p.QueryParam("toEnd")), Partition: p.Name("partition")}
	part := stats.SeekPart{After: p.Name("cursor"), Limit: wire.LeadingInt(p.QueryParam("limit"), 0)}
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
	found, err := h.Progress.PreviewSeek(p.Ctx(), queueName, group, to, part)
	return api.SeekPreview{
		ConsumerGroup: group, QueueName: queueName, PartitionName: to.Partition, MessagesAgain: found.Again, MessagesSkipped: found.Skipped,
		LeasesEnded: found.Leases, PartitionsExamined: found.Cursors, CountsAreLowerBounds: found.AtLeast, CountedAt: found.CountedAt,
		Next: found.Next,
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
	return api.PartitionHeats{
		Partitions: wire.Each(found, func(one *stats.Heat) api.PartitionHeat {
			return api.PartitionHeat{
				ID: one.ID.String(), Name: one.Name, Paused: one.Paused, Stored: one.Stored, Lag: one.Lag, OldestSeconds: wire.Seconds(one.Age),
				Failures: one.Failures, Leased: one.Leased, Resting: one.Resting, ConsumerGroup: wire.OrNull(one.Group), DeadLetters: one.Dead,
				MoreDeadLetters: one.DeadAtLeast, LastPushAt: &one.PushedAt,
			}
		}),
		Pagination: api.Page{Limit: int64(f.Limit), Next: next},
	}, err
}
