package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlAttach      = sql.Query("engine/attach/attach")
	sqlPrint       = sql.Query("engine/attach/attach_print")
	sqlDetach      = sql.Query("engine/attach/detach")
	sqlAttachments = sql.Query("engine/attach/attachments")
	sqlRoles       = sql.Query("engine/attach/role_sql")
)

// The values of Request.Payload.
const (
	PayloadRow     = "row"
	PayloadChanges = "changes"
)

// MaxFailures is the maximum number of recorded failures of an attachment. Older failures are
// deleted.
const MaxFailures = 100

// Request describes an attachment.
type Request struct {
	// Table is written as in SQL: schema.table, with double quotes where SQL needs them.
	Table, Queue string
	// Events holds insert, update or delete. Empty means all three.
	Events []string
	// Key and Columns hold names of columns, without quotes.
	Key, Columns []string
	// Condition is an SQL expression. Empty means every row.
	Condition string
	// Headers are a JSON object of texts, or an SQL expression that returns one. Empty means no headers.
	Headers string
	// Payload is PayloadRow or PayloadChanges. Empty means PayloadRow.
	Payload string
	// Strict makes a statement on the table fail when its messages cannot be written.
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
	return []any{r.Table, r.Queue, events, key, zeronull.Text(r.Condition), payload, r.Columns, r.Strict, zeronull.Text(r.Headers)}
}

func (r *Request) doing() string {
	return fmt.Sprintf("attaching table %s to queue %q", r.Table, r.Queue)
}

// Attachment is an attached table with its queue.
type Attachment struct {
	ID         int64
	Table      string
	Queue      string
	Events     []string
	Key        []string
	Condition  string
	Headers    string
	Payload    string
	Columns    []string
	Strict     bool
	AttachedBy string
	AttachedAt time.Time
	// Triggers is the number of enabled statement-level triggers, minus one if a partitioned table
	// lacks its row-level trigger. If Triggers is less than the number of Events, attach the table
	// again.
	Triggers int64
	// Failures is the number of recorded statements whose messages were dropped, at most
	// MaxFailures.
	Failures     int64
	LastFailedAt time.Time
	LastFailure  string
}

// Client attaches and detaches tables over one connection. Each call is one transaction. A Client
// is not safe for concurrent use.
type Client struct{ conn *pgx.Conn }

// Open connects to the database at url. The errors of Open never contain the password.
func Open(ctx context.Context, url string) (*Client, error) {
	config, err := postgres.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", postgres.DirectKeys, err)
	}
	config.RuntimeParams["client_encoding"] = "UTF8"             // a database may set another default
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // some poolers lose prepared statements
	conn, err := postgres.Connect(ctx, config, postgres.DirectKeys)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn}, nil
}

// Close ends the connection.
func (c *Client) Close(ctx context.Context) error { return c.conn.Close(ctx) }

// Attach attaches a table to a queue. It replaces an earlier attachment of the table to
// that queue. It blocks until transactions that write to the table have ended. Errors: the
// error of Postgres, with its hint.
func (c *Client) Attach(ctx context.Context, r *Request) error {
	_, err := c.conn.Exec(ctx, sqlAttach, r.args()...)
	return explain(r.doing(), err)
}

// SQL returns the statements that Attach would run, as one transaction. It makes the same
// checks as Attach.
func (c *Client) SQL(ctx context.Context, r *Request) (text string, err error) {
	err = c.conn.QueryRow(ctx, sqlPrint, r.args()...).Scan(&text)
	return "BEGIN;\n" + text + "COMMIT;\n", explain(r.doing(), err)
}

// Detach drops the triggers of a table for a queue and returns the queue. With an empty queueName,
// Detach drops the triggers of all attachments of the table, including triggers without a record,
// and returns all their queues. It blocks until transactions that use the table have ended.
func (c *Client) Detach(ctx context.Context, table, queueName string) ([]string, error) {
	return c.strings(ctx, "detaching table "+table, sqlDetach, table, zeronull.Text(queueName))
}

// RoleSQL returns the statements that create the missing roles of belfry_producer,
// belfry_consumer and belfry_admin, and grant all three their rights.
func (c *Client) RoleSQL(ctx context.Context) ([]string, error) {
	return c.strings(ctx, "listing the grants", sqlRoles)
}

// strings runs a query that returns texts. doing describes the query in errors.
func (c *Client) strings(ctx context.Context, doing, query string, args ...any) ([]string, error) {
	rows, _ := c.conn.Query(ctx, query, args...)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string]) // also returns the error of Query
	return list, explain(doing, err)
}

// List returns the attachments of the tables that the role owns, by table and queue. An
// admin gets all attachments.
func (c *Client) List(ctx context.Context) ([]Attachment, error) {
	rows, _ := c.conn.Query(ctx, sqlAttachments, 0, math.MaxInt64, nil)
	list, err := pgx.CollectRows(rows, readAttachment) // also returns the error of Query
	slices.SortFunc(list, func(a, b Attachment) int {
		return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Queue, b.Queue))
	})
	return list, explain("listing attachments", err)
}

// missingRight matches the errors of Postgres for a role without rights on the schema. The
// functions of Belfry have better error texts, but such a role cannot run them.
var missingRight = regexp.MustCompile(`^permission denied for (schema belfry|(view|table) attachments?(_failure)?)$`)

// explain adds the detail and the hint of Postgres, and advice, to an error.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	var more []string
	if pg.Code == "3F000" || (pg.Code == "42883" || pg.Code == "42P01") && strings.Contains(pg.Message, "belfry.") {
		more = append(more, "is the schema of Belfry up to date? See \"belfry migrate status\"")
	}
	if missingRight.MatchString(pg.Message) {
		more = append(more, "This needs belfry_producer: GRANT belfry_producer TO the role that connects.")
	}
	for _, text := range append(more, pg.Detail, pg.Hint) {
		if text != "" {
			err = fmt.Errorf("%w\n%s", err, text)
		}
	}
	return err
}

// Lister lists attachments for the server. It is safe for concurrent use.
type Lister struct{ pool *postgres.Pool }

// NewLister returns a Lister on pool. The Lister sees every attachment only if the role of pool
// owns the schema or is an admin.
func NewLister(pool *postgres.Pool) *Lister { return &Lister{pool} }

// List returns up to limit attachments with an ID above after, in the order in which they were made.
// allowed holds patterns of queue names (belfry.matches). Nil allows all queues. Errors:
// CodeUnavailable.
func (l *Lister) List(ctx context.Context, allowed []string, after, limit int64) ([]Attachment, error) {
	list, err := postgres.Collect(ctx, l.pool, sqlAttachments, readAttachment, after, limit, postgres.LikePatterns(allowed))
	return list, postgres.Wrapf(err, "listing the attached tables")
}

func readAttachment(row pgx.CollectableRow) (a Attachment, err error) {
	err = row.Scan(&a.ID, &a.Table, &a.Queue, &a.Events, &a.Key, (*zeronull.Text)(&a.Condition), &a.Payload, &a.Columns, (*zeronull.Text)(&a.Headers), &a.Strict,
		&a.AttachedBy, &a.AttachedAt, &a.Triggers, &a.Failures, (*zeronull.Timestamptz)(&a.LastFailedAt),
		(*zeronull.Text)(&a.LastFailure))
	return a, err
}
