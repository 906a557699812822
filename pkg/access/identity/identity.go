// Package identity names who makes a request.
//
// A request has a principal when it was authenticated: by a token or by a client certificate. Without
// authentication (auth.enabled is false) no request has one, and every request may do everything.
package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// RoleNamed returns the role with the name read-only, read-write or admin. ok is false for every other name.
func RoleNamed(name string) (role Role, ok bool) {
	for _, role := range []Role{ReadOnly, ReadWrite, Admin} {
		if role.String() == name {
			return role, true
		}
	}
	return NoRole, false
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

// anyText is the pattern that matches every name.
const anyText = "*"

// maxPatterns is the most patterns of one list of a claim.
const maxPatterns = 100

// Grants limit a principal to queues and groups. A nil *Grants does not limit. It must not be changed.
//
// A limit is a list of patterns. In a pattern * matches any run of characters, also an empty one, and
// every other character matches itself, as in the SQL function belfry.matches. A queue that does not
// exist yet has a name too, so a grant is checked without a look at the database.
type Grants struct {
	// Read: see these queues, with their messages and groups.
	Read []string `json:"read,omitempty"`
	// Push: push to these queues.
	Push []string `json:"push,omitempty"`
	// Consume: pop, acknowledge, and change a group in other ways. QUEUE:GROUP is a pattern of a queue
	// and one of a group, divided at the last colon. QUEUE alone is for every group.
	Consume []string `json:"consume,omitempty"`
	// Admin: all of this for every group, and configure and delete.
	Admin []string `json:"admin,omitempty"`
}

// GrantsOf returns the grants of the principal of a context. Without a principal they are nil.
func GrantsOf(ctx context.Context) *Grants {
	if p := From(ctx); p != nil {
		return p.Grants
	}
	return nil
}

// ParseGrants reads a claim: an object with the lists of Grants, as encoding/json decodes it into any.
// An unknown member is an error, because it may be a misspelled limit.
func ParseGrants(claim any) (*Grants, error) {
	members, ok := claim.(map[string]any)
	if !ok {
		return nil, errors.New("it must be an object with read, push, consume and admin")
	}
	g := &Grants{}
	lists := map[string]*[]string{"read": &g.Read, "push": &g.Push, "consume": &g.Consume, "admin": &g.Admin}
	for name, value := range members {
		list, known := lists[name]
		if !known {
			return nil, fmt.Errorf("%q is unknown: use read, push, consume and admin", name)
		}
		patterns, ok := value.([]any)
		if !ok {
			return nil, fmt.Errorf("%s must be an array of patterns", name)
		}
		for _, pattern := range patterns {
			text, ok := pattern.(string)
			if !ok {
				return nil, fmt.Errorf("%s must hold strings", name)
			}
			*list = append(*list, text)
		}
	}
	return g, g.Check()
}

// Check returns an error for a list that is too long, and for a text that no name can match.
func (g *Grants) Check() error {
	for name, list := range map[string][]string{"read": g.Read, "push": g.Push, "consume": g.Consume, "admin": g.Admin} {
		if len(list) > maxPatterns {
			return fmt.Errorf("%s has more than %d patterns", name, maxPatterns)
		}
		for _, text := range list {
			if queuePattern, group := divide(text); queuePattern == "" || group == "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return fmt.Errorf("%q in %s is no pattern", text, name)
			}
		}
	}
	return nil
}

// divide returns the two patterns of an element of Consume.
func divide(text string) (queuePattern, group string) {
	if at := strings.LastIndexByte(text, ':'); at >= 0 {
		return text[:at], text[at+1:]
	}
	return text, anyText
}

// MayRead reports whether the grants allow to see a queue.
func (g *Grants) MayRead(queueName string) bool {
	return g == nil || matchesAny(queueName, g.Read) || matchesAny(queueName, g.Admin)
}

// MayPush reports whether the grants allow to push to a queue.
func (g *Grants) MayPush(queueName string) bool {
	return g == nil || matchesAny(queueName, g.Push) || matchesAny(queueName, g.Admin)
}

// MayConsume reports whether the grants allow to consume a queue as a group.
func (g *Grants) MayConsume(queueName, group string) bool {
	return g == nil || matchesAny(queueName, g.Consumable(group))
}

// MayAdminister reports whether the grants allow to configure and delete a queue.
func (g *Grants) MayAdminister(queueName string) bool {
	return g == nil || matchesAny(queueName, g.Admin)
}

// Readable returns patterns of the queues that the grants allow to see. Nil: every queue.
func (g *Grants) Readable() []string {
	if g == nil {
		return nil
	}
	return append(append([]string{}, g.Read...), g.Admin...)
}

// Consumable returns patterns of the queues that the grants allow to consume as a group. Nil: every queue.
func (g *Grants) Consumable(group string) []string {
	if g == nil {
		return nil
	}
	patterns := append([]string{}, g.Admin...)
	for _, text := range g.Consume {
		if queuePattern, groupPattern := divide(text); matches(group, groupPattern) {
			patterns = append(patterns, queuePattern)
		}
	}
	return patterns
}

// Administrable returns patterns of the queues that the grants allow to configure and delete. Nil: every
// queue.
func (g *Grants) Administrable() []string {
	if g == nil {
		return nil
	}
	return append([]string{}, g.Admin...)
}

func matchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(name, pattern) })
}

// matches reports whether a pattern matches a name.
func matches(name, pattern string) bool {
	parts := strings.Split(pattern, anyText)
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return name == pattern
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return true
}
