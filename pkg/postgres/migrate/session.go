package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// lockKey is the key of the advisory lock of a run: the text "belfry" and a number. Advisory locks belong to one database, so
	// runs in two databases do not wait for each other.
	lockKey int64 = 0x62656c66727901

	// cleanupTimeout bounds the clean-up after ctx has ended.
	cleanupTimeout = 5 * time.Second

	firstLockDelay = 20 * time.Millisecond
	maxLockDelay   = time.Second

	tryLock = `SELECT pg_try_advisory_lock($1)`
	unlock  = `SELECT pg_advisory_unlock($1)`
	// lockHolder finds the session with the lock. A role cannot be migrating if it may not create tables in the schema. Before the
	// schema exists, a role cannot be migrating if it may not create the schema.
	lockHolder = `
SELECT coalesce(l.pid, 0), coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''),
       l.pid IS NULL OR NOT coalesce(has_schema_privilege(a.usesysid, to_regnamespace('belfry'), 'CREATE'),
                    has_database_privilege(a.usesysid, d.oid, 'CREATE'), true)
  FROM pg_locks l
  JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.classid::bigint = $1::bigint >> 32 AND l.objid::bigint = $1::bigint & 4294967295`
	// oldestUser finds the session with the oldest transaction that uses a table of the schema.
	oldestUser = `
SELECT format('%s, pid %s, application %L', c.relname, l.pid, a.application_name)
  FROM pg_locks l
  JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r' AND c.relnamespace = 'belfry'::regnamespace
  JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
  JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.granted AND l.pid <> pg_backend_pid()
 ORDER BY a.xact_start, l.pid LIMIT 1`
)

// session is the one connection of a run. The lock, the record and the migrations
// use it.
type session struct {
	conn     *pgx.Conn
	patience time.Duration // bounds the tries of a migration whose table is in use
	log      *zap.Logger
}

// runPatiently runs the statements of text in one transaction. If a try waits longer than lock_timeout for a table, Postgres
// rolls it back, so that the users of the table can continue. runPatiently repeats the try after a random pause. It returns the
// error of the last try.
func (s *session) runPatiently(ctx context.Context, text string) error {
	for started := time.Now(); ; {
		err := s.conn.PgConn().Exec(ctx, text).Close()
		if postgres.SQLState(err) != "55P03" || time.Since(started) >= s.patience {
			return err
		}
		pause := maxLockDelay/2 + rand.N(maxLockDelay)
		var user string // empty if that session has ended
		_ = s.conn.QueryRow(ctx, oldestUser).Scan(&user)
		s.log.Info("the migration waits for a table that another session uses", zap.String("oldest_user", user),
			zap.Duration("next_try_in", pause), zap.Duration("giving_up_after", s.patience))
		select {
		case <-time.After(min(pause, s.patience)):
		case <-ctx.Done():
			return err
		}
	}
}

// open connects, within Config.ConnectTimeout.
func (m *Migrator) open(ctx context.Context, cc *pgx.ConnConfig) (*pgx.Conn, error) {
	if m.cfg.ConnectTimeout > 0 {
		cc.ConnectTimeout = 0 // the limit of the URL is for each address
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.cfg.ConnectTimeout)
		defer cancel()
	}
	return postgres.Connect(ctx, cc, postgres.DirectKeys)
}

// connect opens the session.
func (m *Migrator) connect(ctx context.Context) (*session, error) {
	if m.cfg.URL == "" {
		return nil, errors.New("no database is configured: set database.url, for example postgres://user:password@host:5432/name")
	}
	cc, err := postgres.ParseURL(m.cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", postgres.DirectKeys, err)
	}
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "belfry migrate"
	}
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	// When ctx ends, this handler cancels the statement on the server and waits for the answer, instead of closing the connection.
	// The answer says that the migration was rolled back.
	cc.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pc, DeadlineDelay: cleanupTimeout}
	}
	conn, err := m.open(ctx, cc)
	if err != nil {
		return nil, err
	}
	if err := postgres.CheckVersion(conn); err != nil {
		_ = conn.Close(ctx) // the connection was not used
		return nil, err
	}
	s := &session{conn: conn, patience: m.cfg.LockTimeout, log: m.log}
	// Settings of the role or the database must not change what a migration means.
	if err := postgres.ConfigureSession(ctx, conn); err != nil {
		s.close(ctx)
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	// The statement_timeout of a role or a database is meant for requests and not for migrations.
	settings := fmt.Sprintf("SET statement_timeout = 0; SET client_min_messages = warning; SET lock_timeout = %d",
		m.cfg.StatementLockTimeout.Milliseconds())
	if err := conn.PgConn().Exec(ctx, settings).Close(); err != nil {
		s.close(ctx)
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	return s, nil
}

// close ends the session. It ignores the error, which has no consequence.
func (s *session) close(ctx context.Context) {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_ = s.conn.Close(cleanup)
}

// lock waits for the advisory lock, for timeout at most, or until ctx ends. It tries the lock repeatedly and does not wait inside
// Postgres. So it holds no snapshot while it waits, and it can log the holder.
func (s *session) lock(ctx context.Context, timeout time.Duration, log *zap.Logger) error {
	delay := firstLockDelay
	for started := time.Now(); ; delay = min(delay*2, maxLockDelay) {
		var got bool
		if err := s.conn.QueryRow(ctx, tryLock, lockKey).Scan(&got); err != nil {
			return fmt.Errorf("taking the migration lock: %w", err)
		}
		if got {
			return nil
		}
		waited := time.Since(started)
		if waited >= timeout || delay == firstLockDelay {
			holder, err := s.holder(ctx)
			if err != nil {
				return err
			}
			if waited >= timeout {
				return &LockedError{Waited: waited, Holder: holder}
			}
			message := "waiting for another instance that is migrating"
			if holder != nil && holder.Stranger {
				message = "waiting for the migration lock, which a session holds that may not migrate"
			}
			log.Info(message, zap.Stringer("holder", holder), zap.Duration("giving_up_after", timeout))
		}
		timer := time.NewTimer(min(delay, timeout-waited))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for another instance that is migrating: %w", ctx.Err())
		}
	}
}

// unlock releases the lock at once. Otherwise the end of the connection would release it a moment later.
func (s *session) unlock(ctx context.Context) {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, _ = s.conn.Exec(cleanup, unlock, lockKey)
}

// holder returns the session that holds the lock, or nil.
func (s *session) holder(ctx context.Context) (*Holder, error) {
	var h Holder
	err := s.conn.QueryRow(ctx, lockHolder, lockKey).Scan(&h.PID, &h.Role, &h.Application, &h.Address, &h.Stranger)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the instance that is migrating: %w", err)
	}
	return &h, nil
}
