package postgres

import (
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/pkg/process/events"
)

// losses is what related pools share.
type losses struct {
	opened     time.Time
	signal     events.Signal
	broken     atomic.Bool
	allRetired atomic.Int64 // the time of the latest call of RetireConnections
	allDoubted atomic.Int64 // the time of the latest call of DoubtConnections
}

// now returns the time since the opening of the first pool. A clock that is set back
// does not change it.
func (l *losses) now() time.Duration { return time.Since(l.opened) }

// Losses returns a channel that receives after a connection was lost, and after
// SignalLoss. The last commits over that connection may lack the work that follows a
// commit. One signal may stand for several losses.
func (l *losses) Losses() <-chan struct{} { return l.signal }

// ReportBrokenConnection signals a loss and makes TakeBroken return true. A connection of this
// instance, or of an instance that died, broke: no wake may have followed its last commits.
func (l *losses) ReportBrokenConnection() {
	l.broken.Store(true)
	l.SignalLoss()
}

// TakeBroken reports whether ReportBrokenConnection was called since the previous call
// of TakeBroken.
func (l *losses) TakeBroken() bool { return l.broken.Swap(false) }

// SignalLoss makes Losses receive. It does not block.
func (l *losses) SignalLoss() { l.signal.Set() }

// RetireConnections makes the related pools stop using the connections that exist now.
// Work that is under way over such a connection continues.
func (l *losses) RetireConnections() { l.allRetired.Store(int64(l.now())) }

// DoubtConnections makes the related pools ping each connection that exists now before it is used again. The caller
// knows of a loss, as of the connection that listens, which may have had the same cause.
func (l *losses) DoubtConnections() { l.allDoubted.Store(int64(l.now())) }

const (
	// sqlstateReadOnly is the SQLSTATE of a write to a read-only Postgres.
	sqlstateReadOnly = "25006"
	// readOnlyAge is the least age of a connection for sqlstateReadOnly to mean that
	// the primary was replaced. A younger connection leads to the current Postgres.
	readOnlyAge = time.Second
	// connectedKey is where a connection keeps the time of its start, as now returns it.
	connectedKey = "belfry.connected"
	// testedKey is where it keeps the time of its latest ping.
	testedKey = "belfry.tested"
)

// connectedAt returns the time of the start of conn.
func connectedAt(conn *pgconn.PgConn) time.Duration {
	after, _ := conn.CustomData()[connectedKey].(time.Duration)
	return after
}

// isDemoted reports whether conn must be closed because its Postgres was the primary
// and is read only now. The promotion of a standby need not end the connections to the
// old primary. If conn is demoted, isDemoted retires all connections.
func (p *Pool) isDemoted(conn *pgconn.PgConn, refused *pgconn.PgError) bool {
	if refused.Code != sqlstateReadOnly || p.now()-connectedAt(conn) < readOnlyAge {
		return false
	}
	p.RetireConnections()
	return true
}

// isRetired reports whether conn was made before the latest call of RetireConnections.
func (p *Pool) isRetired(conn *pgx.Conn) bool {
	return int64(connectedAt(conn.PgConn())) < p.allRetired.Load()
}

// isDoubted reports whether conn was made, and last pinged, before the latest call of DoubtConnections.
func (p *Pool) isDoubted(conn *pgx.Conn) bool {
	tested, _ := conn.PgConn().CustomData()[testedKey].(time.Duration)
	return int64(max(tested, connectedAt(conn.PgConn()))) < p.allDoubted.Load()
}
