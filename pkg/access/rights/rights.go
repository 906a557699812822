// Package rights gives and takes rights on behalf of an administrator: it creates and revokes tokens, and changes the grants of
// SQL roles. Each change writes its row of the audit in its transaction.
package rights

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlListGrants   = sql.Query("access/rights/list_grants")
	sqlCheckedKinds = sql.Query("access/rights/checked_kinds")
	sqlChangeGrant  = sql.Query("access/rights/change_grant")
)

// MaxListed is the maximum number of grants and of revoked tokens in a list.
const MaxListed = 1000

// The SQLSTATEs of refused grants.
const (
	undefinedObject  = "42704" // the role or the grant does not exist
	invalidParameter = "22023" // a name is not valid
	lockNotAvailable = "55P03"
)

// stillOpen is the error of a change that the time limit of the request ended. Only a lock makes a change that slow.
const stillOpen = "the grant was not changed within the time limit of a request: maybe a transaction that has pushed is still open; send the request again"

// Rights changes rights. It is safe for concurrent use.
type Rights struct {
	pool *postgres.Pool
	cfg  token.Config
}

// New returns the Rights of a server. cfg has the secret that signs new tokens.
func New(pool *postgres.Pool, cfg token.Config) *Rights { return &Rights{pool: pool, cfg: cfg} }

// CanSign reports whether the server can create tokens.
func (r *Rights) CanSign() bool { return r.cfg.Enabled && r.cfg.Secret != "" }

// Create returns a new token with its id, and writes the row of the audit. ctx must have a principal, so that a route without
// authentication creates no token. Errors: CodeInvalid if the server cannot sign, CodeForbidden, CodeUnavailable.
func (r *Rights) Create(ctx context.Context, wanted token.Request) (text, id string, err error) {
	switch {
	case !r.CanSign():
		return "", "", queue.Invalidf("the server has no key that signs tokens: set auth.enabled and auth.secret, or create the token with your private key or in your identity provider (docs/security.md)")
	case identity.From(ctx) == nil:
		return "", "", &queue.Error{Code: queue.CodeForbidden, Message: "Insufficient permissions: only a caller with the role admin creates tokens, and this request has no token"}
	}
	if text, err = token.Sign(r.cfg, wanted, token.SecretKey(r.cfg.Secret.Reveal())); err != nil {
		return "", "", err
	}
	content, err := token.Read(text)
	if err != nil {
		return "", "", err
	}
	id, _ = content.Claims["jti"].(string)
	audit.Begin(ctx, audit.Target{}, audit.Parameters{
		"tokenId": id, "subject": wanted.Subject, "role": wanted.Role.String(), "ttlSeconds": int64(wanted.Lifetime.Seconds()), "grants": wanted.Grants,
	})
	err = r.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error { return audit.Write(ctx, tx, audit.Counts{"tokens": 1}) })
	return text, id, postgres.Wrapf(err, "creating a token")
}

// Revoke revokes the token with an id. expiresAt is the verified end of the token, or zero if it is unknown. Errors:
// CodeUnavailable.
func (r *Rights) Revoke(ctx context.Context, id string, expiresAt time.Time) error {
	parameters := audit.Parameters{"tokenId": id}
	if !expiresAt.IsZero() {
		parameters["expiresAt"] = expiresAt.UTC()
	}
	audit.Begin(ctx, audit.Target{}, parameters)
	err := r.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := token.RevokeIn(ctx, tx, id, expiresAt); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"tokens": 1})
	})
	return postgres.Wrapf(err, "revoking a token")
}

// Revoked returns the revoked tokens, the last revoked token first, at most MaxListed. Errors: CodeUnavailable.
func (r *Rights) Revoked(ctx context.Context) (found []token.Revoked, more bool, err error) {
	if found, err = token.ListRevokedIn(ctx, r.pool); len(found) > MaxListed {
		found, more = found[:MaxListed], true
	}
	return found, more, err
}

// Grant lets a role of the database push to queues, or consume queues as groups.
type Grant struct {
	// Kind is push or consume.
	Kind, Role string
	// Queue and Group are patterns; see belfry.matches. Group is * if the kind is push.
	Queue, Group string
}

// GivenGrant is a grant that is in force.
type GivenGrant struct {
	Grant
	GrantedBy string
	GrantedAt time.Time
}

// Grants are the grants in SQL.
type Grants struct {
	Given []GivenGrant
	// More is true if there are more than MaxListed grants.
	More bool
	// PushChecked and ConsumeChecked say whether roles need such a grant.
	PushChecked, ConsumeChecked bool
}

// Grants returns the grants in SQL. Errors: CodeUnavailable.
func (r *Rights) Grants(ctx context.Context) (g Grants, err error) {
	if err = r.pool.ScanRow(ctx, []any{&g.PushChecked, &g.ConsumeChecked}, sqlCheckedKinds); err == nil {
		g.Given, err = postgres.Collect(ctx, r.pool, sqlListGrants, func(row pgx.CollectableRow) (one GivenGrant, err error) {
			err = row.Scan(&one.Role, &one.Kind, &one.Queue, &one.Group, &one.GrantedBy, &one.GrantedAt)
			return one, err
		}, int64(MaxListed+1))
	}
	if len(g.Given) > MaxListed {
		g.Given, g.More = g.Given[:MaxListed], true
	}
	return g, postgres.Wrapf(err, "listing the grants in SQL")
}

// SetGrant gives a grant, or revokes it. It may wait 5 seconds, or until the time limit of
// the request, for transactions that have pushed. Errors: CodeInvalid if the
// role or the grant does not exist, CodeForbidden if the role of the server may not change grants, CodeUnavailable.
func (r *Rights) SetGrant(ctx context.Context, g Grant, revoke bool) error {
	audit.Begin(ctx, audit.Target{}, audit.Parameters{"kind": g.Kind, "role": g.Role, "queue": g.Queue, "consumerGroup": g.Group})
	err := r.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlChangeGrant, g.Kind, g.Role, g.Queue, g.Group, revoke); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"grants": 1})
	})
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second, Message: stillOpen}
	case !errors.As(err, &refused):
		return postgres.Wrapf(err, "changing a grant")
	}
	switch refused.Code {
	case undefinedObject, invalidParameter:
		return &queue.Error{Code: queue.CodeInvalid, Message: refused.Message + ". " + refused.Hint, Err: err}
	case lockNotAvailable:
		return &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second, Message: refused.Message + "; send the request again", Err: err}
	case postgres.InsufficientPrivilege:
		return &queue.Error{
			Code: queue.CodeForbidden, Message: "the database role of the server may not change grants: give it the rights of belfry_admin (belfry roles)", Err: err,
		}
	}
	return postgres.Wrapf(err, "changing a grant")
}
