package token

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxRemembered is the maximum number of remembered tokens. A Verifier that has reached it forgets all tokens.
	maxRemembered = 10_000
	// maxRememberedFor is the longest time for which a token is remembered.
	maxRememberedFor = time.Minute
	// grantsClaim is the name of the claim that limits a token to queues and groups; see identity.Grants.
	grantsClaim = "belfry"
)

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	cfg        Config
	keys       keys
	algorithms []string
	parser     *jwt.Parser
	log        *zap.Logger
	// revocations is nil if no token can be revoked.
	revocations Revocations

	mu         sync.Mutex
	remembered map[[sha256.Size]byte]remembered
}

// remembered is a verified token. After the instant until, the Verifier must verify it again.
type remembered struct {
	principal *identity.Principal
	until     time.Time
}

// New returns a Verifier. It fetches the keys of auth.jwks_url regularly until ctx ends. It blocks until the
// first fetch ends, at most for auth.jwks_timeout. If the first fetch fails, New logs the error, and Verify
// returns CodeUnavailable until a later fetch succeeds. revocations may be nil. New fails if cfg is invalid.
func New(ctx context.Context, cfg Config, revocations Revocations, log *zap.Logger) (*Verifier, error) {
	v := &Verifier{cfg: cfg, revocations: revocations, log: log, remembered: map[[sha256.Size]byte]remembered{}}
	var err error
	if v.keys, err = newKeys(ctx, cfg, log); err != nil {
		return nil, err
	}
	v.algorithms = v.keys.algorithms(cfg)
	options := []jwt.ParserOption{jwt.WithLeeway(cfg.ClockSkew), jwt.WithIssuedAt(), jwt.WithStrictDecoding()}
	if cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.Issuer))
	}
	if cfg.Audience != "" {
		options = append(options, jwt.WithAudience(cfg.Audience))
	}
	v.parser = jwt.NewParser(options...)
	return v, nil
}

// FromHeader returns the token in the value of an Authorization header. The value is "Bearer TOKEN", with any
// case of Bearer, or only the token. Without a token, FromHeader returns "".
func FromHeader(value string) string {
	value = strings.TrimSpace(value)
	if scheme, rest, found := strings.Cut(value, " "); found && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest)
	}
	if strings.EqualFold(value, "Bearer") {
		return ""
	}
	return value
}

// Skips reports whether requests to a route need no token because of auth.skip_paths.
func (v *Verifier) Skips(route string) bool { return v.cfg.Skips(route) }

// Verify returns the principal of a token. If the token is refused or empty, the error is
// CodeUnauthenticated with a text for the sender. If the keys were never fetched, it is CodeUnavailable.
func (v *Verifier) Verify(ctx context.Context, token string) (*identity.Principal, error) {
	if token == "" {
		return nil, refused("Authentication required", nil)
	}
	hash := sha256.Sum256([]byte(token))
	now := time.Now()
	v.mu.Lock()
	known, ok := v.remembered[hash]
	v.mu.Unlock()
	if ok && now.Before(known.until) {
		return unlessEnded(known.principal)
	}
	principal, err := v.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	until := now.Add(min(maxRememberedFor, v.cfg.RefreshInterval/2))
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.remembered) >= maxRemembered {
		clear(v.remembered)
	}
	v.remembered[hash] = remembered{principal, until}
	return unlessEnded(principal)
}

// verify verifies a token that is not remembered.
func (v *Verifier) verify(ctx context.Context, token string) (*identity.Principal, error) {
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		if t.Header["crit"] != nil {
			return nil, fmt.Errorf("%w: Token has the header crit, which is not supported", errHeader)
		}
		if !slices.Contains(v.algorithms, t.Method.Alg()) {
			return nil, fmt.Errorf("%w: Token uses %s, expected %s", errHeader, t.Method.Alg(), strings.Join(v.algorithms, " or "))
		}
		return v.keys.of(ctx, t)
	})
	if err != nil {
		return nil, explain(err)
	}
	return v.principal(claims)
}

// errHeader means that the header of a token is not accepted. In the error text, the text for the sender follows it.
var errHeader = errors.New("the header is not accepted")

// explain turns an error of the JWT parser into an error with a text for the sender.
func explain(err error) error {
	switch {
	case errors.Is(err, errNoKeys):
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: time.Second, Err: err,
			Message: "the keys that verify tokens are not available; send the request again",
		}
	case errors.Is(err, errHeader):
		_, text, _ := strings.Cut(err.Error(), errHeader.Error()+": ")
		return refused(text, err)
	case errors.Is(err, jwt.ErrTokenExpired):
		return refused("Token has expired", err)
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return refused("Invalid token issuer", err)
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return refused("Invalid token audience", err)
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return refused("Token is not valid yet", err)
	case errors.Is(err, jwt.ErrTokenMalformed):
		return refused("Invalid token format", err)
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable):
		return refused("Invalid token signature", err)
	default:
		return refused("Invalid token claims", err)
	}
}

func refused(text string, err error) error {
	return &queue.Error{Code: queue.CodeUnauthenticated, Message: text, Err: err}
}

// principal reads the claims of a verified token.
func (v *Verifier) principal(claims jwt.MapClaims) (*identity.Principal, error) {
	var grants *identity.Grants
	if claim, limited := claims[grantsClaim]; limited {
		var err error
		// A token with invalid grants is refused. Without the grants it would have more rights than its issuer intended.
		if grants, err = identity.ParseGrants(claim); err != nil {
			return nil, refused("Invalid token claim "+grantsClaim+": "+err.Error(), err)
		}
	}
	subject, err := claims.GetSubject()
	if err != nil || !identity.Printable(subject) {
		return nil, refused("Invalid token subject", err)
	}
	id, isText := claims["jti"].(string)
	if claims["jti"] != nil && !isText || !identity.Printable(id) { // a token whose id is not text could not be revoked
		return nil, refused("Invalid token id", nil)
	}
	p := &identity.Principal{Subject: subject, TokenID: id, Role: v.role(claims), Grants: grants}
	if end, err := claims.GetExpirationTime(); err == nil && end != nil {
		p.ExpiresAt = end.Time
	}
	v.limit(p)
	return p, nil
}

// role returns the highest role in the claims.
func (v *Verifier) role(claims jwt.MapClaims) identity.Role {
	highest := identity.NoRole
	note := func(name any) {
		switch name {
		case v.cfg.AdminRole:
			highest = identity.Admin
		case v.cfg.ReadWriteRole:
			highest = max(highest, identity.ReadWrite)
		case v.cfg.ReadOnlyRole:
			highest = max(highest, identity.ReadOnly)
		}
	}
	if v.cfg.RoleClaim != "" {
		note(claims[v.cfg.RoleClaim])
	}
	if v.cfg.RolesClaim != "" {
		names, _ := claims[v.cfg.RolesClaim].([]any)
		for _, name := range names {
			note(name)
		}
	}
	return highest
}
