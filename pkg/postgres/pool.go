package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// closeTimeout is how long a connection that broke during a statement stays open. If Postgres can still read from the
	// connection, Postgres ends the statement in this time.
	closeTimeout = time.Second
	// pingAfter is the idle time after which a connection is pinged before use.
	pingAfter = time.Second
)

// Pool is a bounded set of connections for requests.
type Pool struct {
	*pgxpool.Pool
	requestTimeout time.Duration
	// closing is a context that ends when Close is called. close ends it.
	closing context.Context
	close   context.CancelFunc
	*losses
	repertoire repertoire

	// transactionPooled: see TransactionPooled. It is known once detected is true.
	transactionPooled atomic.Bool
	detectMu          sync.Mutex
	detected          bool // under detectMu: a connection has reached Postgres
}

// Open returns a pool that always keeps the given number of connections open (warm). It does not wait for a connection: see Wait.
// Close releases the pool. An error means that the URL is invalid.
func Open(ctx context.Context, cfg Config, applicationName string, warm int32) (*Pool, error) {
	return open(ctx, cfg, applicationName, warm, &losses{opened: time.Now(), signal: events.NewSignal()})
}

// OpenRelated is like Open, for one more pool of the same database. Both pools share Losses, TakeBroken, RetireConnections and
// DoubtConnections.
func (p *Pool) OpenRelated(ctx context.Context, cfg Config, applicationName string, warm int32) (*Pool, error) {
	return open(ctx, cfg, applicationName, warm, p.losses)
}

func open(ctx context.Context, cfg Config, applicationName string, warm int32, shared *losses) (*Pool, error) {
	url := strings.TrimSpace(cfg.URL.Reveal())
	if _, err := ParseURL(url); err != nil {
		return nil, fmt.Errorf("reading database.url: %w", err)
	}
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading database.url: %w", InvalidURL(err))
	}
	p := &Pool{requestTimeout: cfg.RequestTimeout, losses: shared}
	p.closing, p.close = context.WithCancel(context.Background())
	pc.MaxConns = cfg.PoolSize
	pc.MinConns = min(warm, cfg.PoolSize)
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = applicationName
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		shared.hosts.bePatient(cfg.RequestTimeout)
	}
	ShareConnectTimeout(&pc.ConnConfig.Config, cfg.RequestTimeout)
	pc.BeforeConnect = func(ctx context.Context, config *pgx.ConnConfig) error {
		p.hosts.arrange(config)
		return p.detectPooler(ctx, config)
	}
	pc.ConnConfig.Tracer = cfg.Tracer
	pc.AfterConnect = p.configure
	closesOn := pc.ConnConfig.OnPgError
	pc.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) (keep bool) {
		return !p.revealsPooler(err) && !p.isDemoted(conn, err) && closesOn(conn, err)
	}
	pc.ConnConfig.OnNotice = noteUnconfirmed
	pc.BeforeClose = p.beforeClose
	pc.ShouldPing = func(ctx context.Context, params pgxpool.ShouldPingParams) bool {
		p.test(ctx, params.Conn, params.IdleDuration)
		return false
	}
	pc.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		_ = Confirmed(conn) // drops the warning of a commit of the previous user
		return !p.isRetired(conn), nil
	}
	p.Pool, err = pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("opening the pool: %w", err)
	}
	return p, nil
}

// Close closes all connections. It blocks until the connections in use are released. It does not wait for a database
// that never answered.
func (p *Pool) Close() {
	p.close()
	p.Pool.Close()
}

// test pings a connection that was idle for pingAfter, or that was not pinged since DoubtConnections. If the connection does not
// answer, test retires all connections before it returns. Other connections may be silent for the same reason, and each ping of a
// silent connection takes half of the time of a request.
func (p *Pool) test(ctx context.Context, conn *pgx.Conn, idle time.Duration) {
	if p.isRetired(conn) || idle <= pingAfter && !p.isDoubted(conn) {
		return
	}
	until := time.Now().Add(p.requestTimeout / 2)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	// The ping continues if the client leaves, so that the connection is not lost.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	conn.PgConn().CustomData()[testedKey] = p.now()
	if conn.Ping(ctx) != nil {
		p.ReportBrokenConnection()
		p.RetireConnections()
	}
}

// configure sets or checks the settings of a new connection, within the request timeout. pgxpool sets no time limit, so without
// this limit a silent connection would keep its place in the pool for ever.
func (p *Pool) configure(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := p.Bounded(ctx)
	defer cancel()
	conn.PgConn().CustomData()[connectedKey] = p.now()
	if err := CheckVersion(conn); err != nil {
		return err
	}
	p.repertoire.setEncoding(conn.PgConn().ParameterStatus("server_encoding"))
	if p.TransactionPooled() {
		return checkSettings(ctx, conn)
	}
	if err := applySettings(ctx, conn); err != nil {
		return err
	}
	// These timeouts end abandoned work, so that it does not keep its locks: a running statement, and a transaction whose
	// connection is silent.
	timeouts := fmt.Sprintf(";\nSET statement_timeout = %[1]d;\nSET idle_in_transaction_session_timeout = %[1]d", p.requestTimeout.Milliseconds())
	_, err := conn.PgConn().Exec(ctx, planSettings+timeouts).ReadAll()
	return err
}

// beforeClose reports a connection that broke. If the pool closes a connection that works, the connection is still open here.
func (p *Pool) beforeClose(conn *pgx.Conn) {
	switch {
	case conn.IsClosed():
		p.ReportBrokenConnection()
		p.RetireConnections() // also the connections of related pools, which lead to the same database
		// If the connection is silent, pgx takes up to 15 s to close it, and the connection keeps its place in the pool until then.
		time.AfterFunc(closeTimeout, func() { _ = conn.PgConn().Conn().Close() })
	case p.isRetired(conn):
		// Close only the socket, because a regular close could block and keep the place in the pool.
		_ = conn.PgConn().Conn().Close()
	}
}

// RequestTimeout returns the request timeout. Without a pooler in transaction mode, Postgres ends each statement after this time.
func (p *Pool) RequestTimeout() time.Duration { return p.requestTimeout }

// Bounded returns a context for the database work of one request. It ends after the request timeout. It does not end when the
// client disconnects, because a canceled statement loses its connection, and its outcome is unknown.
func (p *Pool) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), p.requestTimeout)
}

// losses is the state that related pools share.
type losses struct {
	opened     time.Time
	signal     events.Signal
	broken     atomic.Bool
	allRetired atomic.Int64 // the time of the latest call of RetireConnections
	allDoubted atomic.Int64 // the time of the latest call of DoubtConnections
	hosts      hostOrder
}

// now returns the time since the opening of the first pool. A clock that is set back
// does not change it.
func (l *losses) now() time.Duration { return time.Since(l.opened) }

// Losses returns a channel that receives after a connection was lost, and after SignalLoss. The wakes after the last commits over
// that connection may not have run. One value may be sent for several losses.
func (l *losses) Losses() <-chan struct{} { return l.signal }

// ReportBrokenConnection signals a loss and makes TakeBroken return true. Call it if a connection of this instance, or of an
// instance that died, broke. The wakes after the last commits over this connection may not have run.
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

// DoubtConnections makes the related pools ping each connection that exists now before the connection is used again. Call it
// after the loss of another connection, such as the connection of the listener. The cause may affect the pools too.
func (l *losses) DoubtConnections() { l.allDoubted.Store(int64(l.now())) }

const (
	// sqlstateReadOnly is the SQLSTATE of a write to a read-only Postgres.
	sqlstateReadOnly = "25006"
	// If a connection of at least readOnlyAge gets sqlstateReadOnly, the primary was replaced. A younger connection leads to the
	// current Postgres.
	readOnlyAge = time.Second
	// connectedKey is the key under which a connection keeps the time of its start, as now returns it.
	connectedKey = "belfry.connected"
	// testedKey is the key under which a connection keeps the time of its latest ping.
	testedKey = "belfry.tested"
)

// connectedAt returns the time of the start of conn.
func connectedAt(conn *pgconn.PgConn) time.Duration {
	after, _ := conn.CustomData()[connectedKey].(time.Duration)
	return after
}

// isDemoted reports whether conn must be closed because its Postgres was the primary and is read only now. When a standby is
// promoted, the connections to the old primary may stay open. If conn is demoted, isDemoted retires all connections.
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

var sqlConfirm = sql.Query("postgres/confirm")

// unconfirmedKey is the key under which a connection records that a commit was not confirmed.
const unconfirmedKey = "belfry.unconfirmed"

var errUnconfirmed = errors.New("the wait for the synchronous standbys was canceled after the commit")

// noteUnconfirmed is an OnNotice callback. It records a commit whose wait for the synchronous standbys was canceled, by a timeout
// or an administrator. Postgres reports such a commit as done, with a warning. The text of the warning is in the language of the
// server, and it has no specific SQLSTATE. So noteUnconfirmed recognizes it by the name of the function that waits.
func noteUnconfirmed(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unconfirmedKey] = true
	}
}

// Confirmed returns CodeUnavailable if the synchronous standbys did not confirm a commit on conn. It covers the commits since
// conn was taken from its pool, or since the previous call. Such a commit is visible, but a failover may lose it. Call Confirmed
// before a commit is acknowledged.
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

// Confirm calls the function Confirm on a connection of the pool, within the request timeout. Errors:
// CodeUnavailable.
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

// Confirm waits until the disk and the synchronous standbys have everything that conn can see. Call it before an answer that
// relies on data of another transaction. That transaction may still wait for the standbys, or its wait may have been canceled. No
// transaction may be open on conn. Confirm returns errors of Postgres unchanged, and CodeUnavailable.
func Confirm(ctx context.Context, conn *pgx.Conn) error {
	if err := conn.QueryRow(ctx, sqlConfirm).Scan(nil); err != nil {
		return err
	}
	return Confirmed(conn)
}
