package operate

import (
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// DeleteStream serves DELETE /api/v1/streams/:id. It deletes a query and its state. Queen MQ does not have
// this route.
func (h *Handlers) DeleteStream(p *wire.Params) (any, error) {
	text := p.PathName("id")
	if p.Err != nil {
		return nil, p.Err
	}
	id, _ := queue.ParseID(text) // no query has the zero id
	audit.Begin(p.Ctx(), audit.Target{}, audit.Parameters{"streamId": text})
	source, existed, err := h.Queries.Source(p.Ctx(), id)
	if existed = existed && identity.GrantsOf(p.Ctx()).MayAdminister(source); existed && err == nil {
		audit.Locate(p.Ctx(), source, "")
		existed, err = h.Queries.Delete(p.Ctx(), id)
	}
	return api.DeletedStream{Deleted: true, ID: text, Existed: existed}, err
}
