package flow

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Blocks lists and unblocks the partitions that are blocked for a group. *catalog.Catalog implements it.
type Blocks interface {
	Blocked(ctx context.Context, queueName, group string, after, limit int64) ([]catalog.Blocked, error)
	Unblock(ctx context.Context, place catalog.Place, action catalog.UnblockAction) (catalog.Unblocked, error)
}

// BlockHandlers has one method for each route of blocked partitions.
type BlockHandlers struct {
	Blocks Blocks
	Bodies wire.BodyReader
}

// List serves GET /api/v1/consumer-groups/:group/queues/:queue/blocked.
func (h *BlockHandlers) List(p *wire.Params) (any, error) {
	name, group, limit := p.PathName("queue"), p.PathName("group"), wire.Limit(p)
	p.Check(wire.MayRead(p.Ctx(), name))
	after := int64(0)
	if text := p.QueryParam("cursor"); text != "" {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			p.Check(queue.Invalidf("cursor is %q: use pagination.next of the previous page", wire.Clip(text)))
		}
	}
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Blocks.Blocked(p.Ctx(), name, group, after, limit+1)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return wire.NotFound(p, err)
	}
	answer := api.BlockedPartitions{Queue: name, Group: group, Pagination: api.Page{Limit: limit}}
	if int64(len(found)) > limit {
		found = found[:limit]
		next := strconv.FormatInt(found[limit-1].Key, 10)
		answer.Pagination.Next = &next
	}
	answer.Partitions = wire.Each(found, func(b *catalog.Blocked) api.BlockedPartition {
		return api.BlockedPartition{
			Partition: b.Partition, PartitionID: b.PartitionID.String(), MessageID: wire.IDOrNull(b.MessageID), TransactionID: wire.OrNull(b.TransactionID),
			CreatedAt: wire.OrNull(b.CreatedAt), Failures: b.Failures, Deliveries: b.Deliveries, Waiting: b.Waiting,
			Error: wire.OrNull(b.Error), BlockedAt: wire.OrNull(b.Since),
		}
	})
	return answer, err
}

// Unblock serves POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/unblock.
func (h *BlockHandlers) Unblock(p *wire.Params) (any, error) {
	place := catalog.Place{Queue: p.PathName("queue"), Partition: p.PathName("partition"), Group: p.PathName("group")}
	p.Check(wire.MayConsume(p.Ctx(), place.Queue, place.Group))
	if p.Err != nil {
		return nil, p.Err
	}
	action := catalog.UnblockAction("")
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) error {
		if name != "action" {
			return nil
		}
		text, _ := wire.Text(value)
		switch action = catalog.UnblockAction(text); action {
		case catalog.UnblockRetry, catalog.UnblockDeadLetter, catalog.UnblockSkip:
			return nil
		default:
			return queue.Invalidf("action is %s: it must be retry, deadLetter or skip", wire.Clip(string(value)))
		}
	})
	if err == nil && action == "" {
		err = queue.Invalidf("action is required: retry, deadLetter or skip")
	}
	if err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: place.Queue, Partition: place.Partition, Group: place.Group}, audit.Parameters{"action": string(action)})
	done, err := h.Blocks.Unblock(p.Ctx(), place, action)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return wire.NotFound(p, err)
	}
	return api.Unblocked{
		Success: true, Queue: place.Queue, Partition: place.Partition, Group: place.Group, Action: string(action),
		MessageID: wire.IDOrNull(done.MessageID), TransactionID: wire.OrNull(done.TransactionID),
	}, err
}
