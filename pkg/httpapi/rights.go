package httpapi

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Right is what a route needs of a request. Each route states its right, and the zero value is not one.
// See Granted for tokens that are limited to queues.
type Right int

// The rights. Except for Public they need a valid token.
const (
	_ Right = iota
	// Public: every request.
	Public
	// AnyRole: also a token without a role.
	AnyRole
	// Read, Write and Administer: a token with at least the role read-only, read-write or admin.
	Read
	Write
	Administer

	// Granted is added to a right if the handler checks the grants of the token, and shows only what they
	// allow. A route without it refuses every token with grants.
	Granted Right = 1 << 8
	// Changes is added to a right of a GET that changes state, because it takes messages. Of other GETs, a page of
	// another origin cannot read the answer: see refuse.
	Changes Right = 1 << 9
	// MessagesBody is added to a right if the body has messages, or texts of any length. It may have
	// http.max_body_bytes. KeysBody is added if the body is a list of keys. Every other body is small.
	MessagesBody Right = 1 << 10
	KeysBody     Right = 1 << 11
)

// The largest bodies in bytes, except for those with messages.
const (
	smallBody = 64 << 10
	keysBody  = 1 << 20
)

// added is all that is added to a right.
const added = Granted | Changes | MessagesBody | KeysBody

// least returns the right without what is added to it.
func (r Right) least() Right { return r &^ added }

// limitBody returns a handler whose requests have no larger body than the route needs.
func limitBody(right Right, next echo.HandlerFunc) echo.HandlerFunc {
	limit := int64(smallBody)
	switch {
	case right&MessagesBody != 0:
		return next
	case right&KeysBody != 0:
		limit = keysBody
	}
	return func(c echo.Context) error {
		wire.LimitBody(c, limit)
		return next(c)
	}
}

// roles are the least roles of the rights.
var roles = map[Right]identity.Role{AnyRole: identity.NoRole, Read: identity.ReadOnly, Write: identity.ReadWrite, Administer: identity.Admin}

// Authenticator verifies tokens; *token.Verifier is one.
type Authenticator interface {
	// Verify returns the principal of a token, or an error with CodeUnauthenticated or CodeUnavailable.
	Verify(ctx context.Context, token string) (*identity.Principal, error)
	// NextRevocation returns a channel that is closed when another token is known to be revoked.
	NextRevocation() <-chan struct{}
	// Skips reports whether a route is public by the configuration.
	Skips(route string) bool
}

// authorize returns a handler that refuses requests without the right, and gives next a request whose
// context has the principal. Without an Authenticator and without client certificates every request has
// every right.
func (s *Server) authorize(right Right, next echo.HandlerFunc) echo.HandlerFunc {
	if right == Public {
		return next
	}
	least := roles[right.least()]
	return func(c echo.Context) error {
		auth := s.deps.Auth
		if auth == nil && s.cfg.TLSClientCAFile == "" || auth != nil && auth.Skips(c.Path()) {
			return next(c)
		}
		p, err := principal(c, auth)
		if err != nil {
			return err
		}
		switch {
		case p.Role < least:
			return &queue.Error{Code: queue.CodeForbidden, Message: "Insufficient permissions"}
		case p.Grants != nil && right&Granted == 0:
			return &queue.Error{Code: queue.CodeForbidden, Message: "Insufficient permissions: this needs a token without the claim belfry"}
		}
		c.SetRequest(c.Request().WithContext(identity.With(c.Request().Context(), p)))
		return next(c)
	}
}

// seesAudit reports whether the sender may read the audit: it needs what GET /api/v1/audit needs.
func (s *Server) seesAudit(c echo.Context) bool {
	if s.deps.Auth == nil && s.cfg.TLSClientCAFile == "" || s.deps.Auth != nil && s.deps.Auth.Skips(c.Path()) {
		return s.deps.Auth == nil || s.deps.Auth.Skips("/api/v1/audit")
	}
	p := identity.From(c.Request().Context())
	return p != nil && p.Role >= identity.Admin
}

// principal returns who makes a request: the principal of its token, or without a token that of its
// client certificate. Without an Authenticator tokens are ignored.
func principal(c echo.Context, auth Authenticator) (*identity.Principal, error) {
	text := token.FromHeader(c.Request().Header.Get(echo.HeaderAuthorization))
	p := identity.From(c.Request().Context())
	switch {
	case p != nil && (text == "" || auth == nil):
		return p, nil
	case auth == nil:
		return nil, &queue.Error{Code: queue.CodeUnauthenticated, Message: "Authentication required"}
	}
	return auth.Verify(c.Request().Context(), text)
}

// whoami serves GET /api/v1/whoami: what the server knows of the sender.
func (s *Server) whoami(p *wire.Params) (any, error) {
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

// identify gives a request with a client certificate its principal: the common name of the
// certificate, or its whole subject if it has no common name. The handshake has verified the
// certificate. A subject that cannot be stored is ignored, and so is a certificate
// that has expired since. A token replaces this principal.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	role, _ := identity.RoleNamed(s.cfg.TLSClientRole)
	return func(c echo.Context) error {
		if r := c.Request(); r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			identifyByCertificate(c, role)
		}
		return next(c)
	}
}

// identifyByCertificate is not part of identify because its large frame would stay on the stack of each
// request that waits.
func identifyByCertificate(c echo.Context, role identity.Role) {
	r := c.Request()
	leaf := r.TLS.VerifiedChains[0][0]
	who := &identity.Principal{Subject: cmp.Or(leaf.Subject.CommonName, leaf.Subject.String()), Role: role, EndsAt: leaf.NotAfter}
	who.Check = func() error {
		if time.Now().After(who.EndsAt) {
			return &queue.Error{Code: queue.CodeUnauthenticated, Message: "Client certificate has expired"}
		}
		return nil
	}
	if identity.Printable(who.Subject) && who.Check() == nil {
		c.SetRequest(r.WithContext(identity.With(r.Context(), who)))
	}
}
