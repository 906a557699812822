package token

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// Revocations knows the tokens that are refused before they end.
type Revocations interface {
	// Revoked reports whether the token with an id (jti) is revoked. It does not block.
	Revoked(id string) bool
	// NextRevocation returns a channel that is closed when another token is known to be revoked.
	NextRevocation() <-chan struct{}
}

// NextRevocation returns a channel that is closed when another token is known to be revoked. If no token can be,
// it is nil.
func (v *Verifier) NextRevocation() <-chan struct{} {
	if v.revocations == nil {
		return nil
	}
	return v.revocations.NextRevocation()
}

// limit makes the rights of a principal end: when its token expires, with the tolerance for clocks, or is
// revoked. A token without an id cannot be revoked.
func (v *Verifier) limit(p *identity.Principal) {
	if !p.ExpiresAt.IsZero() {
		p.EndsAt = p.ExpiresAt.Add(v.cfg.ClockSkew)
	}
	p.Check = func() error {
		switch {
		case p.TokenID != "" && v.revocations != nil && v.revocations.Revoked(p.TokenID):
			return refused("Token has been revoked", nil)
		case !p.EndsAt.IsZero() && !time.Now().Before(p.EndsAt):
			return refused("Token has expired", nil)
		}
		return nil
	}
}

// unlessEnded returns a principal whose rights have not ended, or an error.
func unlessEnded(p *identity.Principal) (*identity.Principal, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}
