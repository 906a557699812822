package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/process/events"
)

const (
	// closeTimeout is how long a connection that broke during a statement stays open,
	// so that a Postgres that can still read from it ends the statement.
	closeTimeout = time.Second
	// pingAfter is the idle time after which a connection is pinged before use.
	pingAfter = time.Second
)

// Pool is a bounded set of connections for requests.
type Pool struct {
	*pgxpool.Pool
	requestTimeout time.Duration
	// closing ends with Close, by close.
	closing context.Context
	close   context.CancelFunc
	*losses
	repertoire repertoire

	// transactionPooled: see TransactionPooled. It is known once detected is true.
	transactionPooled atomic.Bool
	detectMu          sync.Mutex
	detected          bool // under detectMu: a connection has reached Postgres
}

// Open returns a pool that keeps warm connections open, used or not. It does not wait for a
// connection: see Wait. Close releases the pool. An error means that the URL is invalid.
func Open(ctx context.Context, cfg Config, applicationName string, warm int32) (*Pool, error) {
	return open(ctx, cfg, applicationName, warm, &losses{opened: time.Now(), signal: events.NewSignal()})
}

// OpenRelated is Open for one more pool of the same database. Both pools have the same
// Losses and TakeBroken, and RetireConnections of one retires the connections of both.
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
		pc.ConnConfig.ConnectTimeout = cfg.RequestTimeout
	}
	pc.BeforeConnect = p.detectPooler
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
		_ = Confirmed(conn) // what its last user did is answered
		return !p.isRetired(conn), nil
	}
	p.Pool, err = pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("opening the pool: %w", err)
	}
	return p, nil
}

// Close closes all connections. It blocks until those in use are released, and not for a database that never answered.
func (p *Pool) Close() {
	p.close()
	p.Pool.Close()
}

// test pings a connection that was idle, or is older than a doubt. If it does not answer, all connections are retired
// before test returns: the cause may have left others silent, and each ping of a silent connection takes half of the
// time of a request.
func (p *Pool) test(ctx context.Context, conn *pgx.Conn, idle time.Duration) {
	if p.isRetired(conn) || idle <= pingAfter && !p.isDoubted(conn) {
		return
	}
	until := time.Now().Add(p.requestTimeout / 2)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	// A client that leaves does not cost the connection.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	conn.PgConn().CustomData()[testedKey] = p.now()
	if conn.Ping(ctx) != nil {
		p.ReportBrokenConnection()
		p.RetireConnections()
	}
}

// configure sets or checks the settings of a new connection, within the request timeout. pgxpool sets no limit, and a
// connection that is silent here would keep its place in the pool for ever.
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
	// Abandoned work must not keep its locks: neither a running statement nor a
	// transaction whose connection is silent.
	timeouts := fmt.Sprintf(";\nSET statement_timeout = %[1]d;\nSET idle_in_transaction_session_timeout = %[1]d", p.requestTimeout.Milliseconds())
	_, err := conn.PgConn().Exec(ctx, planSettings+timeouts).ReadAll()
	return err
}

// beforeClose reports a connection that broke. A connection that the pool closes by
// itself is still open here.
func (p *Pool) beforeClose(conn *pgx.Conn) {
	switch {
	case conn.IsClosed():
		p.ReportBrokenConnection()
		p.RetireConnections() // also those of the other pool: they lead to the same database
		// If the connection is silent, pgx takes up to 15 s to close it, and the
		// connection keeps its place in the pool meanwhile.
		time.AfterFunc(closeTimeout, func() { _ = conn.PgConn().Conn().Close() })
	case p.isRetired(conn):
		// Close the socket only: a regular close could block and keep the place in the pool.
		_ = conn.PgConn().Conn().Close()
	}
}

// RequestTimeout returns the request timeout. In session mode Postgres ends each statement after it.
func (p *Pool) RequestTimeout() time.Duration { return p.requestTimeout }

// Bounded returns a context for the database work of one request. It ends after the
// request timeout. It does not end when the client disconnects, because cutting off a
// statement costs its connection and leaves its outcome unknown.
func (p *Pool) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), p.requestTimeout)
}
