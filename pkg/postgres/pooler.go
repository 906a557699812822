package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

const (
	// poolerLooks is how many connections look for a pooler: behind one address there
	// may be several, and other programs use them at the same instant.
	poolerLooks = 12
	// poolerPatience bounds how long each of them waits for a session, and poolerWaits
	// how many of them wait for so long.
	poolerPatience = 500 * time.Millisecond
	poolerWaits    = 2
	// poolerTimeout bounds all of it for a pool of connections.
	poolerTimeout = 30 * time.Second
)

// TransactionPooled says whether a pooler in transaction mode stands between conn,
// which is in no transaction, and Postgres: then each transaction runs in whatever
// session is free, and what is set or locked for one session meets other programs.
// It changes nothing there. Postgres itself answers after one round trip; through a
// pooler other connections are made, one after the other. ctx ends it sooner.
//
// Poolers make up the process number that a connection is greeted with (they need
// it to pass on cancel requests), Postgres does not. Whether a session stays with
// its connection shows when another connection begins a transaction.
func TransactionPooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	session, err := backend(ctx, conn, "")
	if err != nil || session == conn.PgConn().PID() {
		return false, err
	}
	config := conn.Config()
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = poolerTimeout / poolerLooks
	}
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	for looks, waits := 0, 0; looks < poolerLooks && waits < poolerWaits; looks++ {
		found, waited, err := movesFor(ctx, conn, session, config)
		if err != nil || found {
			return found, err
		}
		if waited {
			waits++
		}
	}
	return false, nil
}

// movesFor says whether another connection gets the session that conn had, or makes
// conn get another one, and whether it waited for one in vain.
func movesFor(ctx context.Context, conn *pgx.Conn, session uint32, config *pgx.ConnConfig) (found, waited bool, err error) {
	other, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, false, err
	}
	defer func() { _ = other.Close(ctx) }()
	waiting, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	taken, err := backend(waiting, other, "BEGIN")
	switch {
	case ctx.Err() != nil, err != nil && waiting.Err() == nil:
		return false, false, err
	case err != nil: // no session is free; whoever has one all the same keeps it
		found, err = moved(ctx, conn, session)
		return found, true, err
	}
	found = taken == session
	if !found {
		if found, err = moved(ctx, conn, session); err != nil {
			return false, false, err
		}
	}
	if _, err := other.PgConn().Exec(ctx, "ROLLBACK").ReadAll(); err != nil || found {
		return found, false, err
	}
	found, err = moved(ctx, conn, session) // what was given back last is given out first
	return found, false, err
}

// moved says whether conn has another session now.
func moved(ctx context.Context, conn *pgx.Conn, session uint32) (bool, error) {
	now, err := backend(ctx, conn, "")
	return err == nil && now != session, err
}

// backend returns the number of the process that serves conn, after first.
func backend(ctx context.Context, conn *pgx.Conn, first string) (uint32, error) {
	results, err := conn.PgConn().Exec(ctx, first+"; SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, err
	}
	if len(results) == 0 || len(results[len(results)-1].Rows) != 1 {
		return 0, errors.New("asking for the process of a connection: no answer")
	}
	pid, err := strconv.ParseUint(string(results[len(results)-1].Rows[0][0]), 10, 32)
	return uint32(pid), err
}

// ErrTransactionPooled is for what needs a session of its own.
var ErrTransactionPooled = errors.New("a pooler in transaction mode is between here and Postgres, so no session stays with its connection: " +
	"set database.listen_url to a URL that reaches Postgres directly, or through a pool in session mode")

// ConfigureSession makes the session of conn Belfry's own: then it depends on nothing
// that was set for the database, the role or the server. It fails with
// ErrTransactionPooled where that is not possible.
func ConfigureSession(ctx context.Context, conn *pgx.Conn) error {
	pooled, err := TransactionPooled(ctx, conn)
	if err != nil {
		return fmt.Errorf("looking for a pooler: %w", err)
	}
	if pooled {
		return ErrTransactionPooled
	}
	_, err = conn.PgConn().Exec(ctx, ownStatement).ReadAll()
	return err
}

// findPooler finds out, once, how the connections of the pool reach Postgres, and
// makes config suit it. Others that connect meanwhile wait for it, for poolerTimeout
// at most; ctx ends the look sooner.
func (p *Pool) findPooler(ctx context.Context, config *pgx.ConnConfig) error {
	p.pooler.Lock()
	defer p.pooler.Unlock()
	if !p.reached {
		ctx, cancel := context.WithTimeout(ctx, poolerTimeout)
		defer cancel()
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
		p.reached = true
	}
	if p.TransactionPooled() {
		// What is prepared would stay behind in a session of others, and these settings are
		// those that a pooler restores for each of its clients.
		if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		for _, s := range ownSettings {
			if s.kept {
				config.RuntimeParams[s.name] = s.value
			}
		}
	}
	return nil
}

// overlooked is told what Postgres refuses, and says whether that shows a pooler in
// transaction mode: a statement that was prepared is not there, or one is that was
// not. Then its connection must be closed, and with it those made before (suspect).
func (p *Pool) overlooked(refused *pgconn.PgError) bool {
	if !strayed(refused.Code) {
		return false
	}
	p.transactionPooled.Store(true)
	return true
}

// strayed says whether a SQLSTATE is that of a statement that was prepared in another
// session than the one it meets.
func strayed(state string) bool { return state == "26000" || state == "42P05" }

// TransactionPooled says whether the connections made from now on go through a pooler in
// transaction mode.
func (p *Pool) TransactionPooled() bool { return p.transactionPooled.Load() }

// sqlOtherSettings finds the settings ($1) that are not as wanted ($2), or are, where one
// value is not wanted ($3), just that.
const sqlOtherSettings = `SELECT name, theirs, value, quote_ident(current_user), quote_ident(current_database())
  FROM unnest($1::text[], $2::text[], $3::text[]) AS s (name, value, instead_of), current_setting(name, true) AS theirs
 WHERE theirs <> value AND (instead_of = '' OR instead_of = theirs)`

// checkSettings fails where conn, whose sessions are not its own to set, is not set
// as statements need it, and says how that is mended.
func checkSettings(ctx context.Context, conn *pgx.Conn) error {
	var names, values, insteadOf []string
	for _, s := range ownSettings {
		if !s.held {
			names, values, insteadOf = append(names, s.name), append(values, s.value), append(insteadOf, s.insteadOf)
		}
	}
	rows, err := conn.Query(ctx, sqlOtherSettings, names, values, insteadOf)
	if err != nil {
		return err
	}
	var found, cure []string
	var name, is, value, role, database string
	if _, err := pgx.ForEachRow(rows, []any{&name, &is, &value, &role, &database}, func() error {
		found = append(found, fmt.Sprintf("%s is '%s'", name, is))
		cure = append(cure, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = '%s';", role, database, name, value))
		return nil
	}); err != nil || found == nil {
		return err
	}
	return &settingsError{found: found, cure: cure}
}

// settingsError says that sessions of a pooler are not set as statements need it.
type settingsError struct{ found, cure []string }

func (e *settingsError) Error() string {
	return fmt.Sprintf("database.url goes through a pooler in transaction mode, where Belfry cannot set what its statements need, and %s. "+
		"Use a pool in session mode, leave the pooler out, or give Belfry a role of its own with %s and make the pooler connect again (RECONNECT)", strings.Join(e.found, ", "), strings.Join(e.cure, " "))
}
