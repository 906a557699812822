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
	"go.uber.org/zap"
)

// ownSettings undo what a team has set for the database, the role or the server
// (ALTER DATABASE ... SET) and what Belfry's statements are not written for: an
// isolation that does not see what a lock was waited for, texts read and written in
// other forms, names of somebody's schema before Postgres's, limits for sessions of
// people, and commits that a crash forgets. They are set after connecting, not as
// startup parameters, because poolers refuse unknown startup parameters.
var ownSettings = []struct {
	name, value string
	// kept: poolers in transaction mode keep it for each of their clients.
	kept bool
	// held: it may be theirs where sessions are shared: limits of sessions, and a path
	// that nobody has pg_catalog at the end of.
	held bool
	// insteadOf: every other value is theirs to choose.
	insteadOf string
}{
	{name: "default_transaction_isolation", value: "read committed"},
	{name: "quote_all_identifiers", value: "off"},
	{name: "search_path", value: "pg_catalog, pg_temp", held: true},
	{name: "client_encoding", value: "UTF8", kept: true},
	{name: "standard_conforming_strings", value: "on", kept: true},
	{name: "transform_null_equals", value: "off"},
	{name: "array_nulls", value: "on"},
	{name: "timezone", value: "UTC", kept: true},
	{name: "datestyle", value: "ISO, MDY", kept: true},
	{name: "intervalstyle", value: "postgres"},
	{name: "bytea_output", value: "hex"},
	{name: "extra_float_digits", value: "1"},
	{name: "lock_timeout", value: "0"},
	{name: "synchronous_commit", value: "on", insteadOf: "off"},
	{name: "idle_session_timeout", value: "0", held: true},
	{name: "transaction_timeout", value: "0", held: true}, // since Postgres 17
}

// ownStatement makes ownSettings, as far as this version of Postgres knows them.
var ownStatement = func() string {
	values := make([]string, 0, len(ownSettings))
	for _, s := range ownSettings {
		values = append(values, fmt.Sprintf("('%s', '%s', '%s')", s.name, s.value, s.insteadOf))
	}
	return "SELECT pg_catalog.set_config(name, value, false) FROM (VALUES " + strings.Join(values, ", ") + ") AS s (name, value, instead_of)," +
		" pg_catalog.current_setting(name, true) AS theirs WHERE theirs IS NOT NULL AND (instead_of = '' OR instead_of = theirs)"
}()

// planSettings pin the plans of the hot statements. Each of them has one
// sensible plan: nested loops over index scans. Left to itself the planner
// picks others on a fresh database without statistics, caches them, and keeps
// them while the tables grow.
const planSettings = `
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET enable_nestloop = on;
SET enable_indexscan = on;
SET enable_indexonlyscan = on;
SET jit = off`

// Pool is a bounded set of connections for requests.
type Pool struct {
	*pgxpool.Pool
	requestTimeout time.Duration
	lost           chan struct{}
	broke          atomic.Bool
	// reports is the pool that is told instead of this one.
	reports     atomic.Pointer[Pool]
	reportersMu sync.Mutex
	reporters   []*Pool // those that tell this one
	opened      time.Time
	// suspect is the instant before which connections were made that may have
	// fallen silent, in nanoseconds since opened: a clock that is set back would
	// make new connections look old.
	suspect atomic.Int64
	// transactionPooled: see TransactionPooled. It is known once one connection, under
	// pooler, reached Postgres.
	transactionPooled atomic.Bool
	pooler            sync.Mutex
	reached           bool
}

// Open makes the pool. It does not wait for a connection; see Wait. It keeps warm
// connections open, used or not. Close releases it.
func Open(ctx context.Context, cfg Config, applicationName string, warm int32) (*Pool, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("reading database.url: %w", err)
	}
	p := &Pool{requestTimeout: cfg.RequestTimeout, lost: make(chan struct{}, 1), opened: time.Now()}
	pc.MaxConns = cfg.PoolSize
	pc.MinConns = min(warm, cfg.PoolSize)
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = applicationName
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = cfg.RequestTimeout
	}
	// What the caller has given up must not go on holding locks: neither a statement
	// that runs, nor a transaction whose connection fell silent.
	settings := fmt.Sprintf("%s;%s;\nSET statement_timeout = %[3]d;\nSET idle_in_transaction_session_timeout = %[3]d",
		ownStatement, planSettings, cfg.RequestTimeout.Milliseconds())
	pc.BeforeConnect = p.findPooler
	refused := pc.ConnConfig.OnPgError
	pc.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) (keep bool) {
		return !p.overlooked(err) && !p.replaced(conn, err) && refused(conn, err)
	}
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()[bornKey] = time.Since(p.opened)
		if p.TransactionPooled() {
			return checkSettings(ctx, conn)
		}
		_, err := conn.PgConn().Exec(ctx, settings).ReadAll()
		return err
	}
	// A connection closed by the pool is still open here; one that broke is not.
	pc.BeforeClose = func(conn *pgx.Conn) {
		if conn.IsClosed() {
			p.ReportBrokenConnection()
			p.retireOwn()
			// pgx takes leave of it for up to 15 s when it has fallen silent, and it keeps its
			// place in the pool meanwhile.
			time.AfterFunc(farewell, func() { _ = conn.PgConn().Conn().Close() })
		} else if p.suspects(conn) {
			// Without a farewell: it might take its time, and the place in the pool.
			_ = conn.PgConn().Conn().Close()
		}
	}
	// What broke one connection may have left the others silent, and each would cost
	// a request all of its time to find out.
	pc.ShouldPing = func(_ context.Context, params pgxpool.ShouldPingParams) bool {
		return params.IdleDuration > pingAfter && !p.suspects(params.Conn)
	}
	pc.PingTimeout = cfg.RequestTimeout / 2
	pc.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return !p.suspects(conn), nil }
	p.Pool, err = pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("opening the pool: %w", err)
	}
	return p, nil
}

// farewell is how long a connection that broke in the middle of a statement may
// keep its place, so that a Postgres that can still hear it ends the statement.
const farewell = time.Second

// pingAfter is how long a connection may have been idle and be trusted.
const pingAfter = time.Second

// bornKey is where a connection keeps how long after the opening of the pool it was made.
const bornKey = "belfry.born"

func born(conn *pgconn.PgConn) time.Duration {
	after, _ := conn.CustomData()[bornKey].(time.Duration)
	return after
}

func (p *Pool) suspects(conn *pgx.Conn) bool { return int64(born(conn.PgConn())) < p.suspect.Load() }

// Losses receives after a connection broke: whatever was committed just before
// may lack what runs after a commit. One signal may stand for many.
func (p *Pool) Losses() <-chan struct{} { return p.lost }

// ForwardLossesTo makes this pool report to another one, which reports to none, what is lost
// with its connections. Call it once.
func (p *Pool) ForwardLossesTo(other *Pool) {
	p.reports.Store(other)
	other.reportersMu.Lock()
	defer other.reportersMu.Unlock()
	other.reporters = append(other.reporters, p)
}

// ReportBrokenConnection makes Lost receive, and Broke say so: what the last statements of a
// connection did, of this instance or of one that died, may never have been told.
func (p *Pool) ReportBrokenConnection() {
	if other := p.reports.Load(); other != nil {
		other.ReportBrokenConnection()
		return
	}
	p.broke.Store(true)
	p.SignalLoss()
}

// TakeBroken says whether ReportBroken was called since it was asked last.
func (p *Pool) TakeBroken() bool { return p.broke.Swap(false) }

// SignalLoss makes Lost receive.
func (p *Pool) SignalLoss() {
	select {
	case p.lost <- struct{}{}:
	default: // one is pending already and covers this one
	}
}

// Bounded returns a context for the database work of one request: it ends after
// the request timeout and not when the client leaves, because a statement cut
// off in the middle costs its connection and leaves its outcome unknown.
func (p *Pool) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), p.requestTimeout)
}

// Wait blocks until the database answers, for timeout at most; ctx ends it
// sooner. It logs what it waits for.
func (p *Pool) Wait(ctx context.Context, timeout time.Duration, log *zap.Logger) error {
	deadline, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	where := fmt.Sprintf("%s:%d", p.Config().ConnConfig.Host, p.Config().ConnConfig.Port)
	delay := 100 * time.Millisecond
	for started := time.Now(); ; {
		err := p.Ping(deadline)
		if err == nil {
			if p.TransactionPooled() {
				log.Warn("database.url goes through a pooler in transaction mode: statements are prepared each time and their plans are not pinned, " +
					"which costs speed; with a pool in session mode, or without one, they are")
			}
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the database at %s: %w", where, ctx.Err())
		}
		if settings := (*settingsError)(nil); errors.As(err, &settings) {
			return settings
		}
		if !temporary(err) {
			return fmt.Errorf("connecting to the database at %s: %w; check database.url", where, err)
		}
		if deadline.Err() != nil {
			return fmt.Errorf("the database at %s did not answer within %s (database.start_timeout): "+
				"start it, or correct database.url: %w", where, timeout, err)
		}
		log.Info("waiting for the database", zap.String("address", where), zap.Error(err),
			zap.Duration("waited", time.Since(started).Round(time.Millisecond)), zap.Duration("giving_up_after", timeout))
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-deadline.Done():
			timer.Stop()
		}
		delay = min(delay*2, 2*time.Second)
	}
}

// temporary: refused, unreachable, starting up or shutting down. A wrong
// password or database name stays wrong.
func temporary(err error) bool {
	state := SQLState(err)
	switch state {
	case "", "57P03", "57P01", "57P02", "53300":
		return true
	default:
		return strings.HasPrefix(state, "08") // PgBouncer's word for a Postgres that is away, among others
	}
}
