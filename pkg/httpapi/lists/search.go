package lists

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxFound is the largest limit of a search.
const maxFound = 1000

// Partitions searches the partitions of a queue. *stats.Groups implements it.
type Partitions interface {
	SearchPartitions(ctx context.Context, queueName, part string, from stats.SearchPlace, limit int) (found []stats.FoundPartition, at stats.SearchPlace, more bool, err error)
}

// SearchPartitions serves GET /api/v1/resources/queues/:queue/search.
func (h *Handlers) SearchPartitions(p *wire.Params) (any, error) {
	name, part := p.PathName("queue"), p.Text("name")
	p.Check(wire.MayRead(p.Ctx(), name))
	if part == "" {
		p.Check(queue.Invalidf("name is missing: send a part of the name of a partition"))
	}
	limit, from := Limit(p, maxFound), searchPlace(p)
	if p.Err != nil {
		return nil, p.Err
	}
	found, at, more, err := h.Partitions.SearchPartitions(p.Ctx(), name, part, from, limit)
	if err != nil {
		return nil, err
	}
	answer := api.PartitionSearch{
		Partitions: wire.Each(found, func(one *stats.FoundPartition) api.FoundPartition {
			return api.FoundPartition{ID: one.ID.String(), Name: one.Name}
		}),
		Searched: at.Examined, Pagination: api.Page{Limit: int64(limit)},
	}
	if s := h.Totals.Latest(); s != nil {
		if q := s.Queue(name); q != nil {
			of := max(q.Partitions, at.Examined)
			answer.Of = &of
		}
	}
	if more {
		text := fmt.Sprintf("%t_%t_%d_%s", at.Wrapped, at.Begun, at.Examined, at.Name)
		answer.Pagination.Next = &text
	}
	return answer, wire.ReserveRows(p.Ctx(), len(found))
}

// searchPlace reads the cursor of a search.
func searchPlace(p *wire.Params) (at stats.SearchPlace) {
	if !p.QueryParams().Has("cursor") {
		return at
	}
	text := p.Text("cursor")
	parts := strings.SplitN(text, "_", 4)
	if len(parts) == 4 {
		wrapped, badWrapped := strconv.ParseBool(parts[0])
		begun, badBegun := strconv.ParseBool(parts[1])
		examined, badCount := strconv.ParseInt(parts[2], 10, 64)
		if badWrapped == nil && badBegun == nil && badCount == nil && examined >= 0 {
			return stats.SearchPlace{Wrapped: wrapped, Begun: begun, Examined: examined, Name: parts[3]}
		}
	}
	p.Check(queue.Invalidf("cursor is %q: use what pagination.next of the page before says", wire.Clip(text)))
	return at
}
