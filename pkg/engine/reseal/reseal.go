package reseal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlQueue = sql.Query("engine/reseal/queue")

const (
	pageRows  = 100
	pageBytes = 4 << 20
	maxPasses = 3
	// pageTimeout bounds the time for one page.
	pageTimeout = time.Minute
)

var (
	// ErrStopped means that the context ended. Earlier pages are resealed.
	ErrStopped = errors.New("stopped before the end")
	// ErrNoQueue means that no queue has this name.
	ErrNoQueue = errors.New("there is no such queue")
)

// Client reseals over one connection. It is not safe for concurrent use.
type Client struct {
	conn   *pgx.Conn
	sealer *seal.Sealer
}

// Open connects to the database at url. sealer has the keys. Errors: seal.ErrNoKeyToSeal without a key;
// postgres.ErrTransactionPooled.
func Open(ctx context.Context, url string, sealer *seal.Sealer) (*Client, error) {
	if !sealer.HasKey() {
		return nil, seal.ErrNoKeyToSeal
	}
	conn, err := postgres.OpenSession(ctx, url, "belfry reseal")
	if err != nil {
		return nil, err
	}
	// Without statistics, the planner would sort all messages of the queue for each page.
	if _, err := conn.PgConn().Exec(ctx, "SET enable_sort = off").ReadAll(); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the connection: %w", err), conn.Close(context.WithoutCancel(ctx)))
	}
	return &Client{conn, sealer}, nil
}

// Close ends the connection.
func (c *Client) Close(ctx context.Context) error { return c.conn.Close(ctx) }

// Options are the options of a run.
type Options struct {
	// Check decrypts every message and changes nothing.
	Check bool
	// Progress is called after each page. It may be nil.
	Progress func(Progress)
}

// Progress is the state of a run.
type Progress struct {
	// Pass is the number of the pass, from 1. Read is the number of messages that this pass has
	// read. Resealed is the number of messages that all passes have changed.
	Pass, Read, Resealed int
	// Partition is the partition of the last message.
	Partition string
}

// run is one run of Client.Run.
type run struct {
	*Client
	Options
	queue         int64
	name, current string
	// sealClear is set if the run also encrypts clear text.
	sealClear bool
	report    Report
}

// Run reseals the messages of a queue, or checks them. Its time grows with the size of the queue. When
// ctx ends, Run finishes its page and stops. The report is valid even if Run returns an error. Errors:
// ErrNoQueue, ErrStopped, and the errors of Postgres.
func (c *Client) Run(ctx context.Context, queueName string, opts Options) (Report, error) {
	r := &run{Client: c, Options: opts, name: queueName, current: c.sealer.Current()}
	r.report.Current = keyName(true, &r.current)
	err := c.conn.QueryRow(ctx, sqlQueue, queueName).Scan(&r.queue, &r.sealClear)
	switch {
	case postgres.IsNoRows(err):
		return r.report, fmt.Errorf("%w: %q", ErrNoQueue, queueName)
	case err != nil:
		return r.report, fmt.Errorf("looking for queue %q: %w", queueName, err)
	}
	for again := true; again && r.report.Passes < maxPasses; {
		if err := r.pass(ctx); err != nil {
			return r.report, err
		}
		again = r.report.Last.Resealed > 0 || r.report.Last.Locked > 0
	}
	return r.report, nil
}

// pass reseals all messages of the queue once.
func (r *run) pass(ctx context.Context) error {
	r.report.Passes++
	r.report.Last = newCounts()
	var at place
	for more := true; more; {
		if ctx.Err() != nil {
			return ErrStopped
		}
		var err error
		if at, more, err = r.page(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// page reseals the next page after at, and returns the position after the page. more is false at the
// end. page does not stop when ctx ends.
func (r *run) page(ctx context.Context, at place) (next place, more bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
	defer cancel()
	page, err := r.list(ctx, at)
	if err != nil || len(page) == 0 {
		return at, false, err
	}
	if err := r.takeApart(ctx, page); err != nil {
		return at, false, err
	}
	last := &page[len(page)-1]
	if r.Progress != nil {
		r.Progress(Progress{r.report.Passes, r.report.Last.Read(), r.report.Resealed, last.Partition})
	}
	return place{last.Partition, last.seq}, true, nil
}

// takeApart reseals messages. If Postgres cannot read a message, takeApart halves the page until it
// has found this message.
func (r *run) takeApart(ctx context.Context, page []message) error {
	c, err := r.reseal(ctx, page)
	switch half := len(page) / 2; {
	case err == nil:
	case !postgres.Unreadable(err):
		return err
	case half > 0:
		if err := r.takeApart(ctx, page[:half]); err != nil {
			return err
		}
		return r.takeApart(ctx, page[half:])
	default:
		c = newCounts()
		c.Messages[UnreadKey]++
		c.fail(Failure{page[0].Message, UnreadKey, err})
	}
	r.report.Last.add(&c)
	r.report.Resealed += c.Resealed
	return nil
}
