package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Right is the right that a request needs for a route. The zero value is not a right. See Granted for
// tokens that are limited to queues.
type Right int

// The rights. All except Public need a valid token.
const (
	_ Right = iota
	// Public: every request.
	Public
	// AnyRole: every valid token, even without a role.
	AnyRole
	// Read, Write and Administer: a token with at least the role read-only, read-write or admin.
	Read
	Write
	Administer

	// Granted is a flag: the handler checks the grants of the token, and shows only the queues that they
	// allow. A route without the flag refuses every token with grants.
	Granted Right = 1 << 8
	// Changes is a flag: the route has the method GET and changes state, because it delivers messages. Then refuse also
	// checks the origin of the GET.
	Changes Right = 1 << 9
	// MessagesBody is a flag: the body has messages, or texts of any length, and may have http.max_body_bytes. KeysBody
	// is a flag: the body is a list of keys, of at most keysBody. Without these flags, a body has at most smallBody.
	MessagesBody Right = 1 << 10
	KeysBody     Right = 1 << 11
)

// The largest bodies in bytes without the flag MessagesBody.
const (
	smallBody = 64 << 10
	keysBody  = 1 << 20
)

// added has all flags of a right.
const added = Granted | Changes | MessagesBody | KeysBody

// least returns the right without its flags.
func (r Right) least() Right { return r &^ added }

// limitBody returns a handler that limits the body as the flags of right say.
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

// roles has the lowest role that each right needs.
var roles = map[Right]identity.Role{AnyRole: identity.NoRole, Read: identity.ReadOnly, Write: identity.ReadWrite, Administer: identity.Admin}

// Authenticator verifies tokens. *token.Verifier implements it.
type Authenticator interface {
	// Verify returns the principal of a token, or an error with CodeUnauthenticated or CodeUnavailable.
	Verify(ctx context.Context, token string) (*identity.Principal, error)
	// NextRevocation returns a channel that is closed at the next revocation.
	NextRevocation() <-chan struct{}
	// Skips reports whether auth.skip_paths makes a route public.
	Skips(route string) bool
}

// authorize returns a handler that refuses requests without the right. It calls next with a request whose
// context has the principal. Without an Authenticator and without client certificates, every request has
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
			return &queue.Error{Code: queue.CodeForbidden, Message: fmt.Sprintf("Insufficient permissions: this request needs the role %s, and %s", least, roleOf(p))}
		case p.Grants != nil && right&Granted == 0:
			return &queue.Error{Code: queue.CodeForbidden, Message: "Insufficient permissions: this request needs a token without the claim belfry"}
		}
		c.SetRequest(c.Request().WithContext(identity.With(c.Request().Context(), p)))
		return next(c)
	}
}

// roleOf returns the role of a principal as a part of a sentence.
func roleOf(p *identity.Principal) string {
	if p.Role == identity.NoRole {
		return "the token has no role"
	}
	return "the caller has the role " + p.Role.String()
}

// seesAudit reports whether the sender may read the audit. It requires the same as GET /api/v1/audit.
func (s *Server) seesAudit(c echo.Context) bool {
	if s.deps.Auth == nil && s.cfg.TLSClientCAFile == "" || s.deps.Auth != nil && s.deps.Auth.Skips(c.Path()) {
		return s.deps.Auth == nil || s.deps.Auth.Skips("/api/v1/audit")
	}
	p := identity.From(c.Request().Context())
	return p != nil && p.Role >= identity.Admin
}

// principal returns the principal of the token of a request. Without a token it returns the principal of
// the client certificate. Without an Authenticator it ignores tokens.
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

// identify sets the principal of a request with a client certificate. The subject of the principal is the
// common name of the certificate, or its whole subject if it has no common name. The handshake has
// verified the certificate. identify ignores a certificate whose subject cannot be stored, and a
// certificate that has expired since the handshake. A token replaces this principal.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	role, _ := identity.RoleNamed(s.cfg.TLSClientRole)
	return func(c echo.Context) error {
		if r := c.Request(); r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			identifyByCertificate(c, role)
		}
		return next(c)
	}
}

// identifyByCertificate sets the principal of a request. It is a separate function so that its large stack
// frame does not exist while a request waits.
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
