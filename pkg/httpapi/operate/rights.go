package operate

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/rights"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxTTL is the maximum lifetime of a token that the API creates.
const maxTTL = 366 * 24 * time.Hour

// Rights creates and revokes tokens, and changes the grants of SQL roles. *rights.Rights implements it.
type Rights interface {
	CanSign() bool
	Create(ctx context.Context, wanted token.Request) (text, id string, err error)
	Revoke(ctx context.Context, id string, expiresAt time.Time) error
	Revoked(ctx context.Context) (found []token.Revoked, more bool, err error)
	Grants(ctx context.Context) (rights.Grants, error)
	SetGrant(ctx context.Context, g rights.Grant, revoke bool) error
}

// ListRights serves GET /api/v1/rights.
func (h *Handlers) ListRights(p *wire.Params) (any, error) {
	revoked, more, err := h.Rights.Revoked(p.Ctx())
	if err != nil {
		return nil, err
	}
	grants, err := h.Rights.Grants(p.Ctx())
	if err != nil {
		return nil, err
	}
	answer := api.Rights{
		CanCreateTokens: h.Rights.CanSign(), RevokedTokens: []api.RevokedToken{}, MoreTokens: more, Grants: []api.SQLGrant{}, MoreGrants: grants.More,
		PushIsChecked: grants.PushChecked, PopIsChecked: grants.ConsumeChecked,
	}
	for _, t := range revoked {
		one := api.RevokedToken{ID: t.ID, RevokedBy: t.RevokedBy, RevokedAt: t.RevokedAt.UTC()}
		if !t.ExpiresAt.IsZero() {
			end := t.ExpiresAt.UTC()
			one.ExpiresAt = &end
		}
		answer.RevokedTokens = append(answer.RevokedTokens, one)
	}
	for _, g := range grants.Given {
		answer.Grants = append(answer.Grants, api.SQLGrant{
			Kind: g.Kind, Role: g.Role, Queue: g.Queue, ConsumerGroup: wire.OrNull(g.Group), GrantedBy: g.GrantedBy, GrantedAt: g.GrantedAt.UTC(),
		})
	}
	return answer, nil
}

// CreateToken serves POST /api/v1/tokens.
func (h *Handlers) CreateToken(p *wire.Params) (any, error) {
	var wanted token.Request
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) (err error) {
		switch text, isText := wire.Text(value); {
		case name == "subject" || name == "role":
			if !isText {
				return queue.Invalidf("%s must be a string", name)
			}
			if name == "subject" {
				wanted.Subject = text
			} else if wanted.Role, isText = identity.RoleNamed(text); !isText {
				return queue.Invalidf("role is %q: it must be read-only, read-write or admin", wire.Clip(text))
			}
		case name == "ttlSeconds":
			var seconds int64
			seconds, err = wire.WholeNumber(name, value)
			wanted.Lifetime = time.Duration(min(max(seconds, 0), int64(maxTTL.Seconds())+1)) * time.Second
		case name == "grants" && value.Kind() != 'n':
			var claim any
			if json.Unmarshal(value, &claim) == nil { // the body is valid JSON
				wanted.Grants, err = identity.ParseGrants(claim)
			}
			if err != nil {
				err = queue.Invalidf("grants: %v", err)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case wanted.Subject == "" || !identity.Printable(wanted.Subject):
		return nil, queue.Invalidf("subject is required: the name of the person or program, of at most 512 bytes without control characters")
	case wanted.Role == identity.NoRole:
		return nil, queue.Invalidf("role is required: read-only, read-write or admin")
	case wanted.Lifetime < time.Second || wanted.Lifetime > maxTTL:
		return nil, queue.Invalidf("ttlSeconds is required: from 1 to %.0f", maxTTL.Seconds())
	}
	end := time.Now().Add(wanted.Lifetime).UTC().Truncate(time.Second)
	text, id, err := h.Rights.Create(p.Ctx(), wanted)
	return api.CreatedToken{Token: text, ID: id, ExpiresAt: end}, err
}

// RevokeToken serves POST /api/v1/tokens/revoke.
func (h *Handlers) RevokeToken(p *wire.Params) (any, error) {
	given := map[string]string{}
	if err := h.readTexts(p, given, "token", "id"); err != nil {
		return nil, err
	}
	id, end := given["id"], time.Time{}
	if text := token.FromHeader(given["token"]); text != "" {
		if id != "" {
			return nil, queue.Invalidf("token and id are both given: give one of them")
		}
		content, err := token.Read(text)
		if err != nil {
			return nil, queue.Invalidf("token is not a token: give the token, or its id (jti) in id")
		}
		if id, _ = content.Claims["jti"].(string); id == "" {
			return nil, queue.Invalidf("the token has no id (jti), so it cannot be revoked")
		}
		end = h.verifiedEnd(p.Ctx(), text)
	}
	if id == "" || !identity.Printable(id) {
		return nil, queue.Invalidf("token or id is required, and an id (jti) must be text of at most 512 bytes without control characters")
	}
	return api.TokenRevoked{Revoked: true, ID: id}, h.Rights.Revoke(p.Ctx(), id, end)
}

// verifiedEnd returns the end of a token that the server accepts. It returns the zero time for every other token, because
// anybody can write another end into a token that is not verified.
func (h *Handlers) verifiedEnd(ctx context.Context, text string) time.Time {
	if h.Verify == nil {
		return time.Time{}
	}
	p, err := h.Verify(ctx, text)
	if err != nil {
		return time.Time{}
	}
	return p.EndsAt
}

// ChangeGrant returns the handler of POST /api/v1/sql-grants, or of POST /api/v1/sql-grants/revoke if revoke is true.
func (h *Handlers) ChangeGrant(revoke bool) func(p *wire.Params) (any, error) {
	return func(p *wire.Params) (any, error) {
		given := map[string]string{}
		if err := h.readTexts(p, given, "kind", "role", "queue", "consumerGroup"); err != nil {
			return nil, err
		}
		g := rights.Grant{Kind: given["kind"], Role: given["role"], Queue: given["queue"], Group: given["consumerGroup"]}
		var group *string
		switch {
		case g.Kind != "push" && g.Kind != "consume":
			return nil, queue.Invalidf("kind is %q: it must be push or consume", wire.Clip(g.Kind))
		case g.Kind == "push" && g.Group != "":
			return nil, queue.Invalidf("consumerGroup is given, but the kind is push: remove consumerGroup")
		case g.Role == "" || len(g.Role) > 63:
			return nil, queue.Invalidf("role is required: the name of a role of the database, of at most 63 bytes")
		case g.Queue == "":
			return nil, queue.Invalidf("queue is required: a pattern for the queues, such as orders.*")
		case g.Kind == "push":
			g.Group = "*"
		case g.Group == "":
			g.Group = "*"
			fallthrough
		default:
			group = &g.Group
		}
		if err := errors.Join(wire.CheckName("queue", g.Queue), wire.CheckName("consumerGroup", g.Group)); err != nil {
			return nil, err
		}
		err := h.Rights.SetGrant(p.Ctx(), g, revoke)
		return api.GrantChanged{Success: true, Kind: g.Kind, Role: g.Role, Queue: g.Queue, ConsumerGroup: group, Granted: !revoke}, err
	}
}

// readTexts reads a body, and sets the members with names in given. They must be texts without NUL, or null.
func (h *Handlers) readTexts(p *wire.Params, given map[string]string, names ...string) error {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	return h.Bodies.ReadObject(p, func(name string, value jsontext.Value) error {
		if !wanted[name] || value.Kind() == 'n' {
			return nil
		}
		text, ok := wire.Text(value)
		if !ok || text != wire.ReplaceNUL(text) {
			return queue.Invalidf("%s must be a string without NUL characters", name)
		}
		given[name] = text
		return nil
	})
}
