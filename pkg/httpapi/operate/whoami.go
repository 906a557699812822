package operate

import (
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Whoami serves GET /api/v1/whoami. It describes the principal of the request.
func (h *Handlers) Whoami(p *wire.Params) (any, error) {
	who := identity.From(p.Request().Context())
	if who == nil {
		return wire.Fields{"authenticated", false, "subject", nil, "role", identity.Admin.String(), "tokenId", nil, "expiresAt", nil, "grants", nil}, nil
	}
	var expiresAt any
	if !who.ExpiresAt.IsZero() {
		expiresAt = who.ExpiresAt.UTC()
	}
	return wire.Fields{
		"authenticated", true, "subject", who.Subject, "role", who.Role.String(), "tokenId", who.TokenID, "expiresAt", expiresAt,
		"grants", who.Grants,
	}, nil
}
