package token

import "github.com/belfry-mq/belfry/pkg/identity"

// Revocations knows the tokens that are refused before they end.
type Revocations interface {
	// Revoked reports whether the token with an id (jti) is revoked.
	Revoked(id string) bool
}

// Valid returns an error if the token of a principal has been revoked since it was verified.
func (v *Verifier) Valid(p *identity.Principal) error {
	_, err := v.unlessRevoked(p)
	return err
}

// unlessRevoked returns the principal, or an error for a revoked token. A token without an id cannot be
// revoked.
func (v *Verifier) unlessRevoked(p *identity.Principal) (*identity.Principal, error) {
	if p.TokenID != "" && v.revocations != nil && v.revocations.Revoked(p.TokenID) {
		return nil, refused("Token has been revoked", nil)
	}
	return p, nil
}
