package token

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlRevoke      = sql.Query("access/token/revoke")
	sqlListRevoked = sql.Query("access/token/list")
)

// Revoked is a revoked token.
type Revoked struct {
	ID string
	// ExpiresAt is when the token expires. Zero means never or unknown.
	ExpiresAt time.Time
	RevokedBy string
	RevokedAt time.Time
}

// Revoke revokes a token over conn, and writes a row of the audit. It may be called again for a revoked
// token. Errors come from Postgres.
func Revoke(ctx context.Context, conn *pgx.Conn, id string, expiresAt time.Time) error {
	entry := audit.New(ctx, nil, audit.RevokeToken, audit.Session, queue.NewID().String())
	ctx = audit.With(ctx, entry)
	parameters := audit.Parameters{"tokenId": id}
	if !expiresAt.IsZero() {
		parameters["expiresAt"] = expiresAt.UTC()
	}
	audit.Begin(ctx, audit.Target{}, parameters)
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var err error
		if entry.Subject, err = RevokeIn(ctx, tx, id, expiresAt); err != nil {
			return err
		}
		return audit.Write(ctx, tx, nil)
	})
	if err == nil {
		err = postgres.Confirmed(conn)
	}
	if err != nil {
		return fmt.Errorf("revoking token %q: %w", id, err)
	}
	return nil
}

// RevokeIn revokes a token in a transaction. It returns the role of the session, and writes no row of the audit. Errors come
// from Postgres.
func RevokeIn(ctx context.Context, tx pgx.Tx, id string, expiresAt time.Time) (role string, err error) {
	var told string // void
	err = tx.QueryRow(ctx, sqlRevoke, id, zeronull.Timestamptz(expiresAt)).Scan(&role, &told)
	return role, err
}

// ListRevokedIn returns the revoked tokens, the last revoked token first. Errors: CodeUnavailable.
func ListRevokedIn(ctx context.Context, pool *postgres.Pool) ([]Revoked, error) {
	found, err := postgres.Collect(ctx, pool, sqlListRevoked, readToken)
	return found, postgres.Wrapf(err, "reading the revoked tokens")
}

// ListRevoked returns the revoked tokens, the last revoked token first.
func ListRevoked(ctx context.Context, conn *pgx.Conn) ([]Revoked, error) {
	rows, _ := conn.Query(ctx, sqlListRevoked) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, readToken)
	if err != nil {
		return nil, fmt.Errorf("listing the revoked tokens: %w", err)
	}
	return found, nil
}

func readToken(row pgx.CollectableRow) (t Revoked, err error) {
	err = row.Scan(&t.ID, (*zeronull.Timestamptz)(&t.ExpiresAt), &t.RevokedBy, &t.RevokedAt)
	return t, err
}

// Watcher keeps the ids of the revoked tokens in memory. It is safe for concurrent use.
type Watcher struct {
	events.Nop
	pool *postgres.Pool
	log  *zap.Logger
	// changed is set when the revoked tokens must be read again.
	changed events.Signal
	revoked atomic.Pointer[revokedSet]
}

// revokedSet has the revoked ids that one read found.
type revokedSet struct {
	ids map[string]struct{}
	// grown is closed when a later read has found a token that is not in the set.
	grown chan struct{}
}

func (s *revokedSet) has(id string) bool {
	_, revoked := s.ids[id]
	return revoked
}

// NewWatcher returns a Watcher. Call Load, subscribe the Watcher to the events, and run it.
func NewWatcher(pool *postgres.Pool, log *zap.Logger) *Watcher {
	return &Watcher{pool: pool, log: log, changed: events.NewSignal()}
}

// Revoked reports whether the token with an id is revoked. Call Load first.
func (w *Watcher) Revoked(id string) bool {
	return w.revoked.Load().has(id)
}

// NextRevocation returns a channel that is closed when the Watcher learns that another token is revoked. Call
// it before Revoked, so that no revocation is missed. Call Load first.
func (w *Watcher) NextRevocation() <-chan struct{} { return w.revoked.Load().grown }

// OnRevocation implements events.Handler.
func (w *Watcher) OnRevocation() { w.changed.Set() }

// Run reads the revoked tokens each time they may have changed, until ctx ends. It returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	return w.changed.Reread(ctx, w.Load, func(err error) {
		w.log.Warn("the revoked tokens could not be read; the known revoked tokens stay revoked", zap.Error(err))
	})
}

// Load reads the revoked tokens. Errors: CodeUnavailable.
func (w *Watcher) Load(ctx context.Context) error {
	found, err := ListRevokedIn(ctx, w.pool)
	if err != nil {
		return err
	}
	before := w.revoked.Load()
	set, grown := &revokedSet{ids: make(map[string]struct{}, len(found)), grown: make(chan struct{})}, false
	for _, t := range found {
		set.ids[t.ID] = struct{}{}
		grown = grown || before != nil && !before.has(t.ID)
	}
	if before != nil && !grown {
		set.grown = before.grown
	}
	w.revoked.Store(set)
	if grown {
		close(before.grown)
	}
	return nil
}

// Revocations reports which tokens are revoked. *Watcher implements it.
type Revocations interface {
	// Revoked reports whether the token with an id (jti) is revoked. It does not block.
	Revoked(id string) bool
	// NextRevocation returns a channel that is closed at the next revocation.
	NextRevocation() <-chan struct{}
}

// NextRevocation returns a channel that is closed at the next revocation. The channel is nil if no token can be revoked.
func (v *Verifier) NextRevocation() <-chan struct{} {
	if v.revocations == nil {
		return nil
	}
	return v.revocations.NextRevocation()
}

// IsExpired reports whether Verify has refused a token only because it has expired.
func IsExpired(err error) bool { return errors.Is(err, jwt.ErrTokenExpired) }

// IsRevoked reports whether the token with an id is revoked. It does not block.
func (v *Verifier) IsRevoked(id string) bool {
	return id != "" && v.revocations != nil && v.revocations.Revoked(id)
}

// limit sets EndsAt and Check of a principal. The rights end when the token is revoked, or auth.clock_skew
// after it expires. A token without an id cannot be revoked.
func (v *Verifier) limit(p *identity.Principal) {
	if !p.ExpiresAt.IsZero() {
		p.EndsAt = p.ExpiresAt.Add(v.cfg.ClockSkew)
	}
	p.Check = func() error {
		switch {
		case v.IsRevoked(p.TokenID):
			return refused("Token has been revoked", nil)
		case !p.EndsAt.IsZero() && !time.Now().Before(p.EndsAt):
			return refused("Token has expired", jwt.ErrTokenExpired)
		}
		return nil
	}
}

// unlessEnded returns the principal, or an error if its rights have ended.
func unlessEnded(p *identity.Principal) (*identity.Principal, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}
