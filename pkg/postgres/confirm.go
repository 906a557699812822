package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlConfirm = sql.Query("postgres/confirm")

// unconfirmedKey is where a connection keeps that a commit was not confirmed.
const unconfirmedKey = "belfry.unconfirmed"

var errUnconfirmed = errors.New("the wait for the synchronous standbys was canceled after the commit")

// noteUnconfirmed is an OnNotice: it notes the warning of a commit whose wait for the synchronous standbys was
// canceled, by a timeout or an administrator. Postgres reports such a commit as done. The warning is in the language
// of the server and has no SQLSTATE of its own, so the name of the function that waits tells it apart.
func noteUnconfirmed(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unconfirmedKey] = true
	}
}

// Confirmed returns CodeUnavailable if a commit on conn was not confirmed by the synchronous standbys, since conn was
// taken from its pool or since the previous call: the commit is visible, and a failover may lose it. Call it before a
// commit is acknowledged.
func Confirmed(conn *pgx.Conn) error {
	data := conn.PgConn().CustomData()
	if data[unconfirmedKey] == nil {
		return nil
	}
	delete(data, unconfirmedKey)
	return &queue.Error{
		Code: queue.CodeUnavailable, RetryAfter: RetryAfter, Err: errUnconfirmed,
		Message: "the synchronous standbys of the database have not confirmed this; send the request again",
	}
}

// IsUnconfirmed reports whether err is the error of Confirmed.
func IsUnconfirmed(err error) bool { return errors.Is(err, errUnconfirmed) }

// Confirm is Confirm on a connection of the pool, within the request timeout. Errors: CodeUnavailable.
func (p *Pool) Confirm(ctx context.Context) error {
	ctx, cancel := p.Bounded(ctx)
	defer cancel()
	conn, err := p.Acquire(ctx)
	if err != nil {
		return Wrap(err)
	}
	defer conn.Release()
	return Wrapf(Confirm(ctx, conn.Conn()), "waiting until a change is safe")
}

// Confirm waits until the disk and the synchronous standbys have everything that conn can see. Call it before an
// answer that relies on what another transaction has stored: that transaction may still wait for the standbys, or have
// been canceled while it waited. No transaction may be open on conn. It returns errors of Postgres unchanged, and
// CodeUnavailable.
func Confirm(ctx context.Context, conn *pgx.Conn) error {
	if err := conn.QueryRow(ctx, sqlConfirm).Scan(nil); err != nil {
		return err
	}
	return Confirmed(conn)
}
