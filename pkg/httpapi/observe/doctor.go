package observe

import "github.com/belfry-mq/belfry/pkg/httpapi/wire"

// Examine serves GET /api/v1/doctor. It examines the database and this server. Queen MQ does not have this
// route.
func (h *Handlers) Examine(p *wire.Params) (any, error) {
	report := h.Doctor.Run(p.Ctx())
	return report, p.Ctx().Err()
}
