package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// sqlstateReadOnly is the SQLSTATE of a write to a read-only Postgres.
	sqlstateReadOnly = "25006"
	// readOnlyAge is the least age of a connection for sqlstateReadOnly to mean that
	// the primary was replaced. A younger connection leads to the current Postgres.
	readOnlyAge = time.Second
	// connectedKey is where a connection keeps the time from the opening of the pool
	// to its own start.
	connectedKey = "belfry.connected"
)

// connectedAt returns the start of conn, counted from the opening of its pool.
func connectedAt(conn *pgconn.PgConn) time.Duration {
	after, _ := conn.CustomData()[connectedKey].(time.Duration)
	return after
}

// isDemoted reports whether conn must be closed because its Postgres was the primary
// and is read only now. The promotion of a standby need not end the connections to the
// old primary. If conn is demoted, isDemoted retires all connections.
func (p *Pool) isDemoted(conn *pgconn.PgConn, refused *pgconn.PgError) bool {
	if refused.Code != sqlstateReadOnly || time.Since(p.opened)-connectedAt(conn) < readOnlyAge {
		return false
	}
	p.RetireConnections()
	return true
}

// RetireConnections makes this pool, the pool it forwards to and all pools that forward
// to the same pool stop using the connections that exist now. Work that is under way
// over such a connection continues.
func (p *Pool) RetireConnections() {
	root := p
	if other := p.forwardTo.Load(); other != nil {
		root = other
	}
	root.retireOwn()
	root.sourcesMu.Lock()
	defer root.sourcesMu.Unlock()
	for _, source := range root.sources {
		source.retireOwn()
	}
}

// retireOwn retires the connections of this pool. It counts from the opening of the
// pool, because with wall-clock times a clock that is set back would make new
// connections look old.
func (p *Pool) retireOwn() { p.retireTime.Store(int64(time.Since(p.opened))) }

// isRetired reports whether conn was made before the latest call of retireOwn.
func (p *Pool) isRetired(conn *pgx.Conn) bool {
	return int64(connectedAt(conn.PgConn())) < p.retireTime.Load()
}
