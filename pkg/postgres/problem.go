package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlReadOnly   = sql.Query("postgres/read_only")
	sqlStartFacts = sql.Query("postgres/start_facts")
	sqlMissing    = sql.Query("postgres/missing_rights")
)

// oldestMajor is the oldest major version of Postgres with all features that the schema needs.
const oldestMajor = 14

// Problem says why the server cannot start with a database, and what an operator must change. Its text has no SQLSTATE. Unwrap
// returns the error of Postgres, or nil.
type Problem struct {
	text  string
	cause error
	// passes: the problem may pass without a change, so waiting can help.
	passes bool
}

// NewProblem returns a Problem with a text.
func NewProblem(text string) *Problem { return &Problem{text: text} }

func (p *Problem) Error() string { return p.text }

func (p *Problem) Unwrap() error { return p.cause }

// ConnectProblem returns the Problem of a connection that Postgres refused, or nil if there is nothing to add
// to err. key is the setting with the URL.
func ConnectProblem(cc *pgx.ConnConfig, key string, err error) *Problem {
	var known *Problem
	if errors.As(err, &known) {
		return known
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return nil
	}
	where := net.JoinHostPort(cc.Host, strconv.Itoa(int(cc.Port)))
	role, database := pgx.Identifier{cc.User}.Sanitize(), pgx.Identifier{cmp.Or(cc.Database, cc.User)}.Sanitize()
	text, passes := "", pg.Code == sqlstateTooMany
	switch pg.Code {
	case "28P01":
		text = fmt.Sprintf("the database at %s refuses the password of the role %s: correct the user or the password in %s", where, role, key)
	case "28000":
		text = fmt.Sprintf("the database at %s refuses the login of the role %s (%s): correct %s, or let the role log in (CREATE ROLE, ALTER ROLE %[2]s LOGIN, pg_hba.conf)",
			where, role, pg.Message, key)
	case "3D000":
		text = fmt.Sprintf("the database %s does not exist at %s: create it with CREATE DATABASE %[1]s OWNER %[3]s, or correct %[4]s", database, where, role, key)
	case InsufficientPrivilege:
		text = fmt.Sprintf("the role %s may not connect to the database %s at %s: run GRANT CONNECT ON DATABASE %[2]s TO %[1]s, or correct %[4]s", role, database, where, key)
	case sqlstateNoConnections:
		text = fmt.Sprintf("the database %s at %s accepts no connections: run ALTER DATABASE %[1]s ALLOW_CONNECTIONS true, or correct %[3]s", database, where, key)
	case sqlstateTooMany:
		text = fmt.Sprintf("the database at %s takes no more connections (%s): end sessions that nobody needs, raise max_connections or the limit of the role %s, or lower database.pool_size",
			where, pg.Message, role)
	default:
		return nil
	}
	return &Problem{text: text, cause: err, passes: passes}
}

// DirectKeys are the keys with the URL of Config.DirectURL, for an error.
const DirectKeys = "database.url (database.listen_url when it is set)"

// connectTimeout bounds Connect if the URL has no connect_timeout.
const connectTimeout = 10 * time.Second

// Connect opens a connection. It blocks for at most connect_timeout of the URL for each address. If the URL has no
// connect_timeout, it blocks for at most ten seconds in total, and the hosts share the time until then or until ctx ends. Its
// error says what to change, and has no password. key is the setting with the URL.
func Connect(ctx context.Context, cc *pgx.ConnConfig, key string) (*pgx.Conn, error) {
	bounded := ctx
	if cc.ConnectTimeout == 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		deadline, _ := bounded.Deadline()
		cc = cc.Copy()
		ShareConnectTimeout(&cc.Config, time.Until(deadline))
	}
	conn, err := pgx.ConnectConfig(bounded, cc)
	if err != nil {
		return nil, unreachable(ctx, cc, key, err)
	}
	return conn, nil
}

// unreachable explains why Connect failed. The error of pgx names the user and the database, and never the password.
func unreachable(ctx context.Context, cc *pgx.ConnConfig, key string, err error) error {
	where := net.JoinHostPort(cc.Host, strconv.Itoa(int(cc.Port)))
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("connecting to the database at %s: %w", where, ctx.Err())
	}
	if problem := ConnectProblem(cc, key, err); problem != nil {
		return problem
	}
	if SQLState(err) != "" {
		return fmt.Errorf("the database at %s takes no connections now: %w; try again", where, err)
	}
	return fmt.Errorf("the database at %s cannot be reached: %w; start it, or correct %s", where, oneLine{err}, key)
}

// oneLine is an error without line breaks in its text. pgx writes a line for each address.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e oneLine) Unwrap() error { return e.error }

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// Explain returns a Problem for a statement of the start that Postgres refused because a right is missing or because nothing may
// be written. It asks conn for the details. It returns every other error unchanged.
func Explain(ctx context.Context, conn querier, err error) error {
	var known *Problem
	var pg *pgconn.PgError
	if errors.As(err, &known) || !errors.As(err, &pg) || pg.Code != InsufficientPrivilege && pg.Code != sqlstateReadOnly {
		return err
	}
	f, asked := askFacts(ctx, conn)
	if asked != nil {
		return fmt.Errorf("%w (the query for the reason failed: %w)", err, asked)
	}
	if pg.Code == sqlstateReadOnly {
		return f.readOnly(err)
	}
	missing, asked := MissingRights(ctx, conn)
	if asked != nil {
		return fmt.Errorf("%w (the query for the reason failed: %w)", err, asked)
	}
	var text string
	switch {
	case len(missing) > 0:
		text = f.grants(missing)
	case f.owner == "":
		text = fmt.Sprintf("the role %s may not create the schema belfry in the database %s: run GRANT CREATE ON DATABASE %[2]s TO %[1]s, or use the role that owns the database", f.role, f.database)
	case f.owner == f.role:
		text = fmt.Sprintf("the role %s lacks a right (%s): grant it, or use the role that owns the tables of the schema belfry", f.role, pg.Message)
	default:
		text = fmt.Sprintf("the role %s lacks a right (%s), and the schema belfry belongs to the role %s: use that role in database.url, or run GRANT %[3]s TO %[1]s", f.role, pg.Message, f.owner)
	}
	return &Problem{text: text, cause: err}
}

// CheckRights returns a Problem if the role of conn lacks a right on the schema that a server needs.
func CheckRights(ctx context.Context, conn querier) error {
	missing, err := MissingRights(ctx, conn)
	if err != nil || len(missing) == 0 {
		return err
	}
	f, err := askFacts(ctx, conn)
	if err != nil {
		return err
	}
	return &Problem{text: f.grants(missing)}
}

// MissingRights returns the rights on the schema that a server needs and the role of conn lacks. Each is the middle part of a
// GRANT, such as "SELECT ON belfry.queue". If the schema does not exist, no right is missing.
func MissingRights(ctx context.Context, conn querier) ([]string, error) {
	rows, err := conn.Query(ctx, sqlMissing)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// checkWritable returns a Problem if the sessions of conn can only read.
func checkWritable(ctx context.Context, conn querier) error {
	var readOnly bool
	if err := conn.QueryRow(ctx, sqlReadOnly).Scan(&readOnly); err != nil || !readOnly {
		return err
	}
	f, err := askFacts(ctx, conn)
	if err != nil {
		return err
	}
	return f.readOnly(nil)
}

// facts explain why Postgres refuses a statement. The names are quoted.
type facts struct {
	role, database string
	// owner is the role that owns the schema, or "".
	owner   string
	standby bool
	// source is where default_transaction_read_only was set, as pg_settings names it.
	source string
}

func askFacts(ctx context.Context, conn querier) (f facts, err error) {
	err = conn.QueryRow(ctx, sqlStartFacts).Scan(&f.role, &f.database, &f.owner, &f.standby, &f.source)
	return f, err
}

// grants says which GRANT the role needs.
func (f *facts) grants(missing []string) string {
	var statements []string
	for _, right := range missing {
		statements = append(statements, "GRANT "+right+" TO "+f.role)
	}
	return fmt.Sprintf("the role %s lacks rights on the schema belfry, which belongs to the role %s: use that role in database.url, or let it run %s",
		f.role, f.owner, strings.Join(statements, "; "))
}

// readOnly returns the Problem of sessions that can only read. Only a standby may become writable by itself.
func (f *facts) readOnly(cause error) *Problem {
	if f.standby {
		return &Problem{
			text: "the database is a standby, which can only be read: set database.url to the primary; " +
				"a URL with all hosts and target_session_attrs=read-write finds it",
			cause: cause, passes: true,
		}
	}
	return &Problem{
		text: fmt.Sprintf("the role %s can only read the database %s, because default_transaction_read_only is on: %s, or use another role",
			f.role, f.database, writable(f.source, f.role, f.database)),
		cause: cause,
	}
}

// writable returns the command that makes sessions writable again. source is the source of the setting in pg_settings.
func writable(source, role, database string) string {
	const setting = "default_transaction_read_only"
	switch source {
	case "user":
		return "run ALTER ROLE " + role + " RESET " + setting
	case "database":
		return "run ALTER DATABASE " + database + " RESET " + setting
	case "database user":
		return "run ALTER ROLE " + role + " IN DATABASE " + database + " RESET " + setting
	case "client":
		return "take it out of database.url and PGOPTIONS"
	default:
		return "run ALTER SYSTEM RESET " + setting + " and SELECT pg_reload_conf()"
	}
}

// checkVersion returns a Problem if the server of a connection is too old. version is the text that the server sends when the
// session begins, such as "15.4 (Debian 15.4-1)". A text of an unknown form is accepted.
func checkVersion(version string) error {
	number := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
	major, err := strconv.Atoi(number)
	if err != nil || major >= oldestMajor {
		return nil
	}
	return &Problem{text: fmt.Sprintf("the database is Postgres %s, and Belfry needs Postgres %d or later: upgrade it, or set database.url to another one", version, oldestMajor)}
}

// CheckVersion returns a Problem if the server of conn is too old.
func CheckVersion(conn *pgx.Conn) error {
	return checkVersion(conn.PgConn().ParameterStatus("server_version"))
}
