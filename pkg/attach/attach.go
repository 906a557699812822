package attach

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlAttach      = sql.Query("attach/attach")
	sqlPrint       = sql.Query("attach/attach_print")
	sqlDetach      = sql.Query("attach/detach")
	sqlAttachments = sql.Query("attach/attachments")
	sqlRoles       = sql.Query("attach/role_sql")
)

// The payloads.
const (
	PayloadRow     = "row"
	PayloadChanges = "changes"
)

// MaxFailures is how many failures of an attachment are kept, the latest.
const MaxFailures = 100

// Request says what to attach.
type Request struct {
	// Table is written as in SQL: schema.table, with double quotes around names that
	// need them.
	Table, Queue string
	// Events are some of insert, update and delete; none: all.
	Events []string
	// Key and Columns are names of columns as they are, without quotes.
	Key, Columns []string
	// Condition is an SQL expression; empty: every row.
	Condition string
	// Payload is PayloadRow or PayloadChanges; empty: PayloadRow.
	Payload string
	// Strict lets the statement fail with its messages.
	Strict bool
}

func (r *Request) args() []any {
	events, key, payload := r.Events, r.Key, r.Payload
	if len(events) == 0 {
		events = []string{"insert", "update", "delete"}
	}
	if key == nil {
		key = []string{}
	}
	if payload == "" {
		payload = PayloadRow
	}
	var condition *string
	if r.Condition != "" {
		condition = &r.Condition
	}
	return []any{r.Table, r.Queue, events, key, condition, payload, r.Columns, r.Strict}
}

// Attachment is a table that is attached to a queue.
type Attachment struct {
	Table      string
	Queue      string
	Events     []string
	Key        []string
	Condition  string
	Payload    string
	Columns    []string
	Strict     bool
	AttachedBy string
	AttachedAt time.Time
	// Triggers are those that exist and are enabled, without the one for each row of a
	// partitioned table; where that is missing, they are one less. Where they are fewer than
	// Events, the table is to be attached anew.
	Triggers int64
	// Failures are statements whose messages were dropped, as far as noted and kept: up
	// to MaxFailures.
	Failures     int64
	LastFailedAt time.Time
	LastFailure  string
}

// Client attaches and detaches over one connection, each in a transaction of its
// own. It is not safe for concurrent use.
type Client struct{ conn *pgx.Conn }

// Open connects to the database at url. Its errors do not show the password.
func Open(ctx context.Context, url string) (*Client, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of the database: %w", err)
	}
	config.RuntimeParams["client_encoding"] = "UTF8"             // a database may have another one for its sessions
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // what is prepared does not survive every pooler
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	return &Client{conn: conn}, nil
}

// Close ends the connection.
func (d *Client) Close(ctx context.Context) error { return d.conn.Close(ctx) }

// Attach attaches a table; what was attached to it for that queue is replaced. It
// waits for transactions that write to the table. Errors: what Postgres said, with
// its hint.
func (d *Client) Attach(ctx context.Context, r *Request) error {
	_, err := d.conn.Exec(ctx, sqlAttach, r.args()...)
	return explain(fmt.Sprintf("attaching table %s to queue %q", r.Table, r.Queue), err)
}

// SQL returns what Attach would run, as one transaction, after the same checks.
func (d *Client) SQL(ctx context.Context, r *Request) (text string, err error) {
	err = d.conn.QueryRow(ctx, sqlPrint, r.args()...).Scan(&text)
	return "BEGIN;\n" + text + "COMMIT;\n", explain(fmt.Sprintf("attaching table %s to queue %q", r.Table, r.Queue), err)
}

// Detach takes the triggers for a queue away, or with an empty name all of them,
// also where nothing is noted of them. It returns the queues the table fed.
func (d *Client) Detach(ctx context.Context, table, queueName string) ([]string, error) {
	var only *string
	if queueName != "" {
		only = &queueName
	}
	rows, err := d.conn.Query(ctx, sqlDetach, table, only)
	if err != nil {
		return nil, explain("detaching table "+table, err)
	}
	queues, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return queues, explain("detaching table "+table, err)
}

// List returns the attachments of tables of this role, and for an admin all of them,
// by table and queue.
func (d *Client) List(ctx context.Context) ([]Attachment, error) {
	rows, err := d.conn.Query(ctx, sqlAttachments)
	if err != nil {
		return nil, explain("listing attachments", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Attachment, err error) {
		var condition, failure *string
		var failedAt *time.Time
		err = row.Scan(&a.Table, &a.Queue, &a.Events, &a.Key, &condition, &a.Payload, &a.Columns, &a.Strict, &a.AttachedBy,
			&a.AttachedAt, &a.Triggers, &a.Failures, &failedAt, &failure)
		if condition != nil {
			a.Condition = *condition
		}
		if failure != nil {
			a.LastFailedAt, a.LastFailure = *failedAt, *failure
		}
		return a, err
	})
	return list, explain("listing attachments", err)
}

// RoleSQL returns the statements that make the roles belfry_producer,
// belfry_consumer and belfry_admin, those that are missing, and give them their
// rights.
func (d *Client) RoleSQL(ctx context.Context) ([]string, error) {
	rows, err := d.conn.Query(ctx, sqlRoles)
	if err != nil {
		return nil, explain("listing the grants", err)
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return statements, explain("listing the grants", err)
}

// missingRight is what Postgres says to who has no rights here, and so reaches no
// function that would say more.
var missingRight = regexp.MustCompile(`^permission denied for (schema belfry|(view|table) attachments?(_failure)?)$`)

// explain adds what Postgres knows beyond its message, and what is to be done.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("%s: %w", what, err)
	}
	var more []string
	if pg.Code == "3F000" || (pg.Code == "42883" || pg.Code == "42P01") && strings.Contains(pg.Message, "belfry.") {
		more = append(more, "is the schema of Belfry up to date? See \"belfry migrate status\"")
	}
	if missingRight.MatchString(pg.Message) {
		more = append(more, "This needs belfry_producer: GRANT belfry_producer TO the role that connects.")
	}
	if pg.Detail != "" {
		more = append(more, pg.Detail)
	}
	if pg.Hint != "" {
		more = append(more, pg.Hint)
	}
	if len(more) == 0 {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w\n%s", what, err, strings.Join(more, "\n"))
}
