// Package identity describes who makes a request.
//
// A request that was authenticated by a token or by a client certificate has a principal. Without
// authentication (auth.enabled is false), requests have no principal, and every request may do everything.
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
	NoRole    Role = iota // use only what every token may use
	ReadOnly              // see queues, groups and messages
	ReadWrite             // push, consume, configure
	Admin                 // delete queues and groups, and everything else
)

// String returns the default name of the role in tokens.
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

// Principal is the sender of a request. Do not change it after it was created.
type Principal struct {
	// Subject is the subject of the token (sub) or of the certificate. It may be empty.
	Subject string
	// TokenID is the id of the token (jti), or empty.
	TokenID string
	Role    Role
	// Grants limit the role to queues and groups. Nil means no limit.
	Grants *Grants
	// ExpiresAt is when the token expires. Zero means never.
	ExpiresAt time.Time
	// EndsAt is the latest end of the rights. Zero means that they do not end by time. It may be later than
	// ExpiresAt, because the server tolerates clocks that differ (auth.clock_skew).
	EndsAt time.Time
	// Check returns an error if the rights have ended. It does not block. Nil means that the rights do not end.
	Check func() error
}

type key struct{}

// With returns a copy of ctx that has a principal.
func With(ctx context.Context, p *Principal) context.Context { return context.WithValue(ctx, key{}, p) }

// From returns the principal of a context, or nil if it has none.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(key{}).(*Principal)
	return p
}

// Valid returns an error if the rights of the principal of a context have ended. Without a principal it
// returns nil. It does not block.
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

// maxText is the maximum number of bytes of a subject and of a token id.
const maxText = 512

// Printable reports whether a subject or a token id can be stored and logged. It must have at most maxText
// bytes, be UTF-8 and have no control characters.
func Printable(text string) bool {
	return len(text) <= maxText && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// anyText is the pattern that matches every name.
const anyText = "*"

// maxPatterns is the maximum number of patterns in one list of a claim.
const maxPatterns = 100

// Grants limit a principal to queues and groups. A nil *Grants means no limit. Do not change Grants after
// they were created.
//
// Each field is a list of patterns. In a pattern, * matches any number of characters, including none.
// Every other character matches itself, as in the SQL function belfry.matches. Grants are checked by the
// name of a queue, without a query. So they also work for queues that do not exist yet.
type Grants struct {
	// Read: see these queues, with their messages and groups.
	Read []string `json:"read,omitempty"`
	// Push: push to these queues.
	Push []string `json:"push,omitempty"`
	// Consume: pop, acknowledge, and change a group in other ways. An element is QUEUE:GROUP: a pattern for
	// the queue and a pattern for the group, separated by the last colon. QUEUE alone means every group.
	Consume []string `json:"consume,omitempty"`
	// Admin: all of the above for every group, and configure and delete.
	Admin []string `json:"admin,omitempty"`
}

// GrantsOf returns the grants of the principal of a context. Without a principal it returns nil.
func GrantsOf(ctx context.Context) *Grants {
	if p := From(ctx); p != nil {
		return p.Grants
	}
	return nil
}

// ParseGrants reads a claim: an object with the lists of Grants, as encoding/json decodes it into any.
// An unknown member is an error, because it may be the misspelled name of a list.
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

// Check returns an error if a list is too long or an element is not a valid pattern.
func (g *Grants) Check() error {
	for name, list := range map[string][]string{"read": g.Read, "push": g.Push, "consume": g.Consume, "admin": g.Admin} {
		if len(list) > maxPatterns {
			return fmt.Errorf("%s has more than %d patterns", name, maxPatterns)
		}
		for _, text := range list {
			if queuePattern, group := divide(text); queuePattern == "" || group == "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return fmt.Errorf("%q in %s is not a pattern", text, name)
			}
		}
	}
	return nil
}

// divide returns the patterns for the queue and for the group of an element of Consume.
func divide(text string) (queuePattern, group string) {
	if at := strings.LastIndexByte(text, ':'); at >= 0 {
		return text[:at], text[at+1:]
	}
	return text, anyText
}

// MayRead reports whether the grants allow reading a queue.
func (g *Grants) MayRead(queueName string) bool {
	return g == nil || matchesAny(queueName, g.Read) || matchesAny(queueName, g.Admin)
}

// MayPush reports whether the grants allow pushes to a queue.
func (g *Grants) MayPush(queueName string) bool {
	return g == nil || matchesAny(queueName, g.Push) || matchesAny(queueName, g.Admin)
}

// MayConsume reports whether the grants allow consuming a queue as a group.
func (g *Grants) MayConsume(queueName, group string) bool {
	return g == nil || matchesAny(queueName, g.Consumable(group))
}

// MayAdminister reports whether the grants allow configuring and deleting a queue.
func (g *Grants) MayAdminister(queueName string) bool {
	return g == nil || matchesAny(queueName, g.Admin)
}

// Readable returns the patterns of the queues that MayRead allows. Nil means every queue.
func (g *Grants) Readable() []string {
	if g == nil {
		return nil
	}
	return append(append([]string{}, g.Read...), g.Admin...)
}

// Consumable returns the patterns of the queues that MayConsume allows for a group. Nil means every queue.
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

// Administrable returns the patterns of the queues that MayAdminister allows. Nil means every queue.
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
