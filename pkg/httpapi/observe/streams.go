package observe

import (
	"encoding/base64"
	"strings"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/stream"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListStreams serves GET /api/v1/streams. It lists the queries of stream clients by source and name. Queen MQ
// does not have this route.
func (h *Handlers) ListStreams(p *wire.Params) (any, error) {
	limit := int64(limitOf(p))
	var after stream.Query
	var paged bool
	if text := p.QueryParam("cursor"); text != "" {
		decoded, err := base64.RawURLEncoding.DecodeString(text)
		after.Source, after.Name, paged = strings.Cut(string(decoded), "\x00")
		if err != nil || !paged || wire.CheckName("source", after.Source) != nil || wire.CheckName("name", after.Name) != nil {
			p.Check(queue.Invalidf("cursor is %q: use pagination.next of the previous page", wire.Clip(text)))
		}
	}
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Queries.List(p.Ctx(), after, limit, readable(p))
	var next *string
	if n := len(found); int64(n) == limit {
		next = wire.OrNull(base64.RawURLEncoding.EncodeToString([]byte(found[n-1].Source + "\x00" + found[n-1].Name)))
	}
	return api.Streams{
		Streams: wire.Each(found, func(l *stream.Listed) api.Stream {
			return api.Stream{
				ID: l.ID.String(), Name: l.Name, SourceQueue: l.Source, SinkQueue: wire.OrNull(l.Sink), ConfigHash: l.Hash,
				ConsumerGroup: "streams." + l.ID.String(), StateKeys: l.Keys, CreatedAt: l.CreatedAt, UpdatedAt: l.UpdatedAt,
			}
		}),
		Pagination: api.Page{Limit: limit, Next: next},
	}, err
}
