package operate

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// DeleteGroup serves DELETE /api/v1/consumer-groups/:group. It deletes the group in all queues.
func (h *Handlers) DeleteGroup(p *wire.Params) (any, error) { return h.deleteGroup(p, nil) }

// DeleteGroupOfQueue serves DELETE /api/v1/consumer-groups/:group/queues/:queue.
func (h *Handlers) DeleteGroupOfQueue(p *wire.Params) (any, error) {
	name := p.PathName("queue")
	p.Check(wire.MayAdminister(p.Ctx(), name))
	return h.deleteGroup(p, &name)
}

// deleteGroup deletes a group in one queue, or in all queues if queueName is nil. If the
// parameter deleteMetadata is false, it keeps the stored subscription.
func (h *Handlers) deleteGroup(p *wire.Params, queueName *string) (any, error) {
	group := p.PathName("group")
	if p.Err != nil {
		return nil, p.Err
	}
	metadata := !p.QueryParams().Has("deleteMetadata") || wire.IsTrue(p.QueryParam("deleteMetadata"))
	audit.Begin(p.Ctx(), audit.Target{Group: group, Queue: orEmpty(queueName)}, audit.Parameters{"deleteMetadata": metadata})
	deleted, err := h.GroupWriter.DeleteGroup(p.Ctx(), group, queueName, !metadata)
	return api.DeletedGroup{Success: true, Group: group, Queue: queueName, DeletedPartitions: deleted.Cursors, MetadataDeleted: metadata}, err
}

// SeekQueue serves POST /api/v1/consumer-groups/:group/queues/:queue/seek.
func (h *Handlers) SeekQueue(p *wire.Params) (any, error) {
	group, name := p.PathName("group"), p.PathName("queue")
	p.Check(wire.MayConsume(p.Ctx(), name, group))
	place, given, err := h.readSeek(p)
	if err == nil && !given {
		err = queue.Invalidf("Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true")
	}
	if err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: name, Group: group}, seekParameters(place))
	moved, err := h.GroupWriter.Seek(p.Ctx(), name, group, place)
	return api.Sought{
		Success: true, Group: group, Queue: name, SeekToEnd: place.End,
		SeekToBeginning: !place.End && place.After.IsZero(), // a member that Queen MQ does not have
		TargetTimestamp: wire.OrNull(place.After), PartitionsUpdated: moved,
	}, err
}

// SeekPartition serves POST
// /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek. Without
// a position it seeks to the end.
func (h *Handlers) SeekPartition(p *wire.Params) (any, error) {
	group, name, partition := p.PathName("group"), p.PathName("queue"), p.PathName("partition")
	p.Check(wire.MayConsume(p.Ctx(), name, group))
	place, given, err := h.readSeek(p)
	if err != nil {
		return nil, err
	}
	if !given {
		place.End = true
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: name, Partition: partition, Group: group}, seekParameters(place))
	sought, err := h.GroupWriter.SeekPartition(p.Ctx(), name, group, partition, place)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return wire.NotFound(p, err)
	}
	return api.SoughtPartition{
		Success: true, Group: group, Queue: name, Partition: partition, Updated: sought.Moved, CursorMovedTo: wire.OrNull(sought.Place),
	}, err
}

// seekParameters returns the parameters of a seek for the audit.
func seekParameters(place catalog.Position) audit.Parameters {
	switch {
	case place.End:
		return audit.Parameters{"toEnd": true}
	case place.After.IsZero():
		return audit.Parameters{"toBeginning": true}
	default:
		return audit.Parameters{"timestamp": place.After}
	}
}

// readSeek reads a position from the body or the query: toEnd, toBeginning or timestamp.
// More than one position is an error. given is false if the request has no position.
func (h *Handlers) readSeek(p *wire.Params) (place catalog.Position, given bool, err error) {
	if p.Err != nil {
		return place, false, p.Err
	}
	var beginning bool
	place.End, beginning = wire.IsTrue(p.QueryParam("toEnd")), wire.IsTrue(p.QueryParam("toBeginning"))
	if text := p.QueryParam("timestamp"); text != "" {
		if place.After, err = wire.Timestamp("timestamp", text, ""); err != nil {
			return place, false, err
		}
	}
	err = h.Bodies.ReadOptionalObject(p, func(name string, value jsontext.Value) (err error) {
		switch {
		case value.Kind() == 'n':
		case name == "toEnd":
			place.End, err = wire.Bool(name, value)
		case name == "toBeginning":
			beginning, err = wire.Bool(name, value)
		case name == "timestamp":
			place.After, err = wire.TimestampValue(name, value)
		}
		return err
	})
	positions := 0
	for _, given := range []bool{place.End, beginning, !place.After.IsZero()} {
		if given {
			positions++
		}
	}
	if err == nil && positions > 1 {
		err = queue.Invalidf("toEnd, toBeginning and timestamp exclude each other: send one of them")
	}
	return place, positions == 1, err
}
