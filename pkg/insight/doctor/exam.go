package doctor

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// application is the application_name of the doctor's session.
	application = "belfry-doctor"
	// listenerName is the application_name of an instance's listener session.
	listenerName = "belfry-listen"
	// connectTimeout bounds the attempt to connect.
	connectTimeout = 5 * time.Second
)

// bounds are the settings of each transaction. A lock of another session blocks a check for at most one second.
// Postgres plans with indexes, as in the sessions of the server.
const bounds = `SET LOCAL statement_timeout = '5s';
SET LOCAL lock_timeout = '1s';
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL jit = off`

var sqlFacts = sql.Query("insight/doctor/facts")

// exam is one run of the checks.
type exam struct {
	Config
	session *pgx.Conn
	// target names the database, its address and the role, without the password.
	target string
	// connectErr says why there is no session. took is how long connecting took.
	connectErr error
	took       time.Duration
	// facts are values that several checks judge. factsErr says why the facts are not known.
	facts    facts
	factsErr error
	// pooled is true if the session leads through a pooler in transaction mode. pooledErr says why that is not known.
	pooled    bool
	pooledErr error
}

// facts is the row that sqlFacts returns. The file of the statement describes the columns.
type facts struct {
	version                            int64
	versionText                        string
	standby, fsync, fullPageWrites     bool
	synchronousCommit                  string
	autovacuum, trackCounts            bool
	synchronousStandbys, dataDirectory string
	maxConnections, reserved           int64
	databaseLimit, roleLimit           int64
	superuser                          bool
	role, database                     string
	seesSessions                       bool
	used, instances                    int64
	notificationQueue                  float64
	transactionAge                     int64
}

func (f *facts) columns() []any {
	return []any{
		&f.version, &f.versionText, &f.standby, &f.fsync, &f.fullPageWrites, &f.synchronousCommit, &f.autovacuum, &f.trackCounts,
		&f.synchronousStandbys, &f.dataDirectory, &f.maxConnections, &f.reserved, &f.databaseLimit, &f.roleLimit, &f.superuser, &f.role,
		&f.database, &f.seesSessions, &f.used, &f.instances, &f.notificationQueue, &f.transactionAge,
	}
}

// read opens the session and reads the facts.
func (e *exam) read(ctx context.Context) {
	began := time.Now()
	e.connectErr = e.connect(ctx)
	e.took = time.Since(began)
	if e.connectErr != nil {
		e.factsErr, e.pooledErr = e.connectErr, e.connectErr
		return
	}
	e.pooled, e.pooledErr = postgres.TransactionPooled(ctx, e.session)
	e.factsErr = e.query(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqlFacts, listenerName).Scan(e.facts.columns()...)
	})
}

// connect opens the session. It sets no parameter with SET, because a pooler may give the session to another program.
func (e *exam) connect(ctx context.Context) error {
	config, err := postgres.ParseURL(e.URL.Reveal())
	if err != nil {
		return fmt.Errorf("reading %s: %w", postgres.DirectKeys, err)
	}
	e.target = fmt.Sprintf("database %q at %s as role %q", config.Database, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), config.User)
	config.RuntimeParams["application_name"] = application
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // leaves no prepared statement in a shared session
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	e.session, err = postgres.Connect(ctx, config, postgres.DirectKeys)
	return err
}

// query runs read in a read-only transaction. If the session was lost, it opens another one.
func (e *exam) query(ctx context.Context, read func(tx pgx.Tx) error) error {
	if e.connectErr != nil {
		return e.connectErr
	}
	if e.session.IsClosed() {
		if err := e.connect(ctx); err != nil {
			e.connectErr = err
			return err
		}
	}
	return pgx.BeginTxFunc(ctx, e.session, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Conn().PgConn().Exec(ctx, bounds).ReadAll(); err != nil {
			return fmt.Errorf("bounding the transaction: %w", err)
		}
		return read(tx)
	})
}

// close ends the session.
func (e *exam) close(ctx context.Context) {
	if e.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = e.session.Close(ctx) // the session wrote nothing, so an error loses nothing
}

// collect returns the rows of a query.
func collect[T any](ctx context.Context, e *exam, query string, read pgx.RowToFunc[T], args ...any) (all []T, err error) {
	err = e.query(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, read)
		return err
	})
	return all, err
}

// judged returns a check that needs only the facts.
func judged(judge func(e *exam, f *facts) outcome) func(ctx context.Context, e *exam) outcome {
	return func(_ context.Context, e *exam) outcome {
		if e.factsErr != nil {
			return failed(e.factsErr)
		}
		return judge(e, &e.facts)
	}
}
