package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/belfry-mq/belfry/sql"
)

const (
	// poolerProbes is the maximum number of connections that probe for a pooler. Several connections are needed, because one
	// address may lead to several poolers, and other programs use the sessions at the same time.
	poolerProbes = 12
	// sessionTimeout is how long a probe waits for a session. maxSessionTimeouts is how
	// many probes may wait that long.
	sessionTimeout     = 500 * time.Millisecond
	maxSessionTimeouts = 2
	// detectTimeout bounds all probes of a pool together.
	detectTimeout = 30 * time.Second
)

// ErrTransactionPooled means that an operation needs a session that no other program uses, and a pooler in transaction mode
// prevents this.
var ErrTransactionPooled = errors.New("a pooler in transaction mode is between here and Postgres, so no session stays with its connection: " +
	"set database.listen_url to a URL that reaches Postgres directly, or through a pool in session mode")

var sqlBackendPID = sql.Query("postgres/backend_pid")

// TransactionPooled reports whether a pooler in transaction mode is between conn and Postgres. Behind such a pooler, each
// transaction runs in any free session, and session settings and session locks affect other programs. conn must be in no
// transaction. TransactionPooled changes nothing in the sessions.
//
// It works as follows:
//
//  1. A pooler invents the process number that a new connection receives, because it needs a number to forward cancel requests.
//     Postgres sends the real number. If the number is real, one round trip suffices.
//  2. Otherwise other connections begin transactions, one after the other. In transaction mode such
//     a transaction gets the session of conn, or conn moves to another session.
//
// If ctx ends, it returns an error.
func TransactionPooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	session, err := backendPID(ctx, conn, "")
	if err != nil || session == conn.PgConn().PID() {
		return false, err
	}
	config := conn.Config()
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = detectTimeout / poolerProbes
	}
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	for probes, timeouts := 0, 0; probes < poolerProbes && timeouts < maxSessionTimeouts; probes++ {
		found, timedOut, err := probePooler(ctx, conn, session, config)
		if err != nil || found {
			return found, err
		}
		if timedOut {
			timeouts++
		}
	}
	return false, nil
}

// probePooler begins a transaction on another connection. found reports whether the
// transaction got the session of conn, or conn moved to another session. timedOut
// reports whether the transaction got no session.
func probePooler(ctx context.Context, conn *pgx.Conn, session uint32, config *pgx.ConnConfig) (found, timedOut bool, err error) {
	other, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, false, err
	}
	defer func() { _ = other.Close(ctx) }()
	waiting, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	taken, err := backendPID(waiting, other, "BEGIN")
	switch {
	case ctx.Err() != nil, err != nil && waiting.Err() == nil:
		return false, false, err
	case err != nil: // no session is free, but conn may have moved to another session
		found, err = hasMoved(ctx, conn, session)
		return found, true, err
	}
	found = taken == session
	if !found {
		if found, err = hasMoved(ctx, conn, session); err != nil {
			return false, false, err
		}
	}
	if _, err := other.PgConn().Exec(ctx, "ROLLBACK").ReadAll(); err != nil || found {
		return found, false, err
	}
	found, err = hasMoved(ctx, conn, session) // a pooler hands out the session that was returned last, so conn may move now
	return found, false, err
}

// hasMoved reports whether conn has another session now.
func hasMoved(ctx context.Context, conn *pgx.Conn, session uint32) (bool, error) {
	now, err := backendPID(ctx, conn, "")
	return err == nil && now != session, err
}

// backendPID returns the number of the process that serves conn. If first is not empty, it runs this statement before.
func backendPID(ctx context.Context, conn *pgx.Conn, first string) (uint32, error) {
	results, err := conn.PgConn().Exec(ctx, first+";\n"+sqlBackendPID).ReadAll()
	if err != nil {
		return 0, err
	}
	if len(results) == 0 || len(results[len(results)-1].Rows) != 1 {
		return 0, errors.New("asking for the process of a connection: no answer")
	}
	pid, err := strconv.ParseUint(string(results[len(results)-1].Rows[0][0]), 10, 32)
	return uint32(pid), err
}

// detectPooler finds out, once, how the connections of the pool reach Postgres. It adapts config to a pooler in transaction mode.
// It blocks for at most detectTimeout, or until Close. Other connections that start at the same time wait for the result.
func (p *Pool) detectPooler(ctx context.Context, config *pgx.ConnConfig) error {
	p.detectMu.Lock()
	defer p.detectMu.Unlock()
	if !p.detected {
		ctx, cancel := context.WithTimeout(ctx, detectTimeout)
		defer cancel()
		defer context.AfterFunc(p.closing, cancel)()
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		pooled, err := TransactionPooled(ctx, conn)
		if err != nil {
			return fmt.Errorf("looking for a pooler: %w", err)
		}
		p.transactionPooled.Store(pooled)
		p.detected = true
	}
	if p.TransactionPooled() {
		// A prepared statement would remain in a shared session.
		if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		for _, s := range sessionSettings {
			if s.perClient {
				config.RuntimeParams[s.name] = s.value
			}
		}
	}
	return nil
}

// revealsPooler reports whether an error of Postgres reveals a pooler in transaction mode that detectPooler missed: a prepared
// statement does not exist, or exists although the connection did not prepare it. In that case the connection must be closed. The
// close also retires the older connections.
func (p *Pool) revealsPooler(err *pgconn.PgError) bool {
	if !isPreparedElsewhere(err.Code) {
		return false
	}
	p.transactionPooled.Store(true)
	return true
}

// isPreparedElsewhere reports whether a SQLSTATE means that a statement runs in a session in which it was not prepared.
func isPreparedElsewhere(state string) bool { return state == "26000" || state == "42P05" }

// TransactionPooled reports whether new connections lead through a pooler in transaction mode.
func (p *Pool) TransactionPooled() bool { return p.transactionPooled.Load() }
