package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// sqlstateReadOnly is what a Postgres says that may only be read.
	sqlstateReadOnly = "25006"
	// readOnlyAge is how old a connection must be for that to say that another Postgres
	// may have taken its place. One that is younger was made to what is there now.
	readOnlyAge = time.Second
)

// replaced is told what Postgres refuses over conn, and says whether conn must be
// closed: it leads to what was the primary when it was made, and may only be read now.
// Whoever promotes a standby need not end the connections to the old primary.
func (p *Pool) replaced(conn *pgconn.PgConn, refused *pgconn.PgError) bool {
	if refused.Code != sqlstateReadOnly {
		return false
	}
	if time.Since(p.opened)-born(conn) < readOnlyAge {
		return false
	}
	p.RetireConnections()
	return true
}

// RetireConnections makes this pool, and those that report to it or to which it reports, use no
// connection any more that was made before now. What is being done over one goes on.
func (p *Pool) RetireConnections() {
	root := p
	if other := p.reports.Load(); other != nil {
		root = other
	}
	root.retireOwn()
	root.reportersMu.Lock()
	defer root.reportersMu.Unlock()
	for _, reporter := range root.reporters {
		reporter.retireOwn()
	}
}

func (p *Pool) retireOwn() { p.suspect.Store(int64(time.Since(p.opened))) }
