// Package identity names who makes a request.
//
// A request has a principal when it was authenticated: by a token or by a client certificate. Without
// authentication (auth.enabled is false) no request has one, and every request may do everything.
package identity

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Role says what a principal may do. A higher role includes the lower ones.
type Role int

// The roles.
const (
	NoRole    Role = iota // nothing that is protected
	ReadOnly              // see queues, groups and messages
	ReadWrite             // push, consume, configure
	Admin                 // delete queues and groups, and everything else
)

// String returns the name of the role in a token, if the token claims have their default names.
func (r Role) String() string {
	switch r {
	case ReadOnly:
		return "read-only"
	case ReadWrite:
		return "read-write"
	case Admin:
		return "admin"
	default:
		return "none"
	}
}

// Principal is who makes a request. It must not be changed.
type Principal struct {
	// Subject is the subject of the token (sub) or of the certificate. It may be empty.
	Subject string
	// TokenID is the id of the token (jti), or empty.
	TokenID string
	Role    Role
	// Grants limit the role to queues and groups. Nil: they do not.
	Grants *Grants
	// ExpiresAt is when the token ends; zero: it does not.
	ExpiresAt time.Time
	// EndsAt is when the rights end, if nothing ends them earlier; zero: they do not. It may be later than
	// ExpiresAt, because the clocks of servers differ.
	EndsAt time.Time
	// Check returns an error if the rights have ended. It does not block. Nil: they do not end.
	Check func() error
}

type key struct{}

// With returns a context with a principal.
func With(ctx context.Context, p *Principal) context.Context { return context.WithValue(ctx, key{}, p) }

// From returns the principal of a context, or nil if it has none.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(key{}).(*Principal)
	return p
}

// Valid returns an error if the rights of the principal of a context have ended. Without a principal they do
// not end. It does not block.
func Valid(ctx context.Context) error {
	if p := From(ctx); p != nil && p.Check != nil {
		return p.Check()
	}
	return nil
}

// Subject returns the subject of the principal of a context, or an empty string.
func Subject(ctx context.Context) string {
	if p := From(ctx); p != nil {
		return p.Subject
	}
	return ""
}

// maxText is the most bytes of a subject and of the id of a token.
const maxText = 512

// Printable reports whether a subject or the id of a token can be stored and logged: it is short, UTF-8,
// and has no control characters.
func Printable(text string) bool {
	return len(text) <= maxText && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
