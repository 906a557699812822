package operate

import (
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// DeleteStream serves DELETE /api/v1/streams/:id. The state of the query is deleted too. Queen MQ does not
// have it.
func (h *Handlers) DeleteStream(p *wire.Params) (any, error) {
	text := p.PathName("id")
	if p.Err != nil {
		return nil, p.Err
	}
	id, _ := queue.ParseID(text) // the zero id is no query
	audit.Begin(p.Ctx(), audit.Target{}, audit.Parameters{"streamId": text})
	source, existed, err := h.Queries.Source(p.Ctx(), id)
	if existed = existed && identity.GrantsOf(p.Ctx()).MayAdminister(source); existed && err == nil {
		audit.Locate(p.Ctx(), source, "")
		existed, err = h.Queries.Delete(p.Ctx(), id)
	}
	return api.DeletedStream{Deleted: true, ID: text, Existed: existed}, err
}
