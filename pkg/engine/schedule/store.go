package schedule

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/tracing"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlPut       = sql.Query("engine/schedule/put")
	sqlLock      = sql.Query("engine/schedule/lock")
	sqlGet       = sql.Query("engine/schedule/get")
	sqlList      = sql.Query("engine/schedule/list")
	sqlListQueue = sql.Query("engine/schedule/list_queue")
	sqlDelete    = sql.Query("engine/schedule/delete")
	sqlPause     = sql.Query("engine/schedule/pause")
	sqlRun       = sql.Query("engine/schedule/run")
)

const (
	// maxNext is how many instants Instants returns.
	maxNext = 1000
	// attempts is how often a method tries to change a schedule that others change.
	attempts = 5
)

// errChanged is the error if others change a schedule again and again. errDryRun rolls back a transaction.
var (
	errChanged = &queue.Error{Code: queue.CodeUnavailable, Message: "the schedule is being changed: send the request again"}
	errDryRun  = errors.New("a dry run")
)

// Store reads and changes schedules. It is safe for concurrent use. Each change writes the row of the audit of its context, if
// the context has an entry.
type Store struct{ pool *postgres.Pool }

// NewStore returns a Store.
func NewStore(pool *postgres.Pool) *Store { return &Store{pool} }

// Check decides whether a caller may change a schedule that exists. It gets the queue of the schedule. The methods of Store return
// its error, and then change nothing.
type Check func(queueName string) error

// run calls all checks.
func run(checks []Check, queueName string) error {
	for _, check := range checks {
		if err := check(queueName); err != nil {
			return err
		}
	}
	return nil
}

// Put is Set without the schedule.
func (s *Store) Put(ctx context.Context, d *Definition, checks ...Check) (created bool, err error) {
	_, created, err = s.Set(ctx, d, false, checks...)
	return created, err
}

// Set creates or replaces a schedule. It returns the schedule, and reports whether it is new. A replaced schedule stays paused if
// it was paused, unless Definition.Pause is set. If its instants are the same as before, no instant is lost or repeated. With
// dryRun, Set does and checks the same, but stores nothing. Errors: CodeInvalid; the text says what to change. CodeUnavailable, and
// the errors of the checks.
func (s *Store) Set(ctx context.Context, d *Definition, dryRun bool, checks ...Check) (set *Schedule, created bool, err error) {
	if _, err := when.Parse(d.Spec); err != nil {
		return nil, false, err
	}
	for range attempts {
		err = s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			exists, err := lock(ctx, tx, d.Name, checks)
			if err != nil {
				return err
			}
			if set, created, err = put(ctx, tx, d); err != nil {
				return err
			}
			switch {
			case !exists && !created: // another transaction has created it after lock
				return errChanged
			case dryRun:
				return errDryRun
			}
			return audit.Write(ctx, tx, audit.Counts{"schedules": 1})
		})
		switch {
		case err == nil, errors.Is(err, errDryRun):
			return set, created, nil
		case !errors.Is(err, errChanged):
			return nil, false, wrap(err, "storing schedule %q", d.Name)
		}
	}
	return nil, false, err
}

// lock locks a schedule, and calls the checks with its queue. It returns false if the schedule does not exist.
func lock(ctx context.Context, tx pgx.Tx, name string, checks []Check) (exists bool, err error) {
	var queueName string
	err = tx.QueryRow(ctx, sqlLock, name).Scan(&queueName)
	if postgres.IsNoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, run(checks, queueName)
}

// put writes a schedule, and reads it.
func put(ctx context.Context, tx pgx.Tx, d *Definition) (set *Schedule, created bool, err error) {
	var headers *string
	if d.Headers != nil {
		text := string(d.Headers)
		headers = &text
	}
	err = tx.QueryRow(ctx, sqlPut, d.Name, d.Queue, string(d.Payload), zeronull.Text(d.Spec.Cron), zeronull.Int8(d.Spec.Every.Microseconds()),
		zeronull.Timestamptz(d.Spec.At), cmp.Or(d.Spec.Zone, "UTC"), cmp.Or(d.Partition, queue.DefaultPartition), headers, d.Delay.Microseconds(),
		zeronull.Timestamptz(d.Spec.Starts), zeronull.Timestamptz(d.Spec.Ends), d.Jitter.Microseconds(), cmp.Or(d.Missed, MissedOne),
		zeronull.Text(d.OverlapGroup)).Scan(&created)
	if err == nil && d.Pause != nil {
		var changed bool
		err = tx.QueryRow(ctx, sqlPause, d.Name, *d.Pause, nil).Scan(&changed)
	}
	if err != nil {
		return nil, false, err
	}
	rows, err := tx.Query(ctx, sqlGet, d.Name)
	if err != nil {
		return nil, false, err
	}
	now, err := pgx.CollectExactlyOneRow(rows, scan)
	return &now, created, err
}

// wrap is postgres.Wrapf, but returns the errors that functions of the schema raise in their own words.
func wrap(err error, format string, args ...any) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Hint != "" && strings.HasPrefix(pg.Code, "22") {
		return queue.Invalidf("%s: %s", strings.TrimPrefix(pg.Message, "belfry.schedule: "), pg.Hint)
	}
	return postgres.Wrapf(err, format, args...)
}

// Get returns a schedule. Errors: CodeNotFound, CodeUnavailable.
func (s *Store) Get(ctx context.Context, name string) (*Schedule, error) {
	found, err := postgres.Collect(ctx, s.pool, sqlGet, scan, name)
	if err == nil && len(found) == 0 {
		return nil, ErrNoSchedule
	}
	if err != nil {
		return nil, postgres.Wrapf(err, "reading schedule %q", name)
	}
	return &found[0], nil
}

// Filter selects schedules.
type Filter struct {
	// Queue is the name of the queue. "" selects all queues.
	Queue string
	// Part is a part of the names, in any case. "" selects all names.
	Part string
	// Allowed are patterns of names of queues. Nil selects all queues.
	Allowed []string
	// After is the name after which the page begins.
	After string
	// Limit is how many schedules a page has at most.
	Limit int
}

// List returns a page of schedules by name. next is Filter.After of the next page, or "" after the last page. A page has fewer
// schedules than Limit if they are large. Errors: CodeUnavailable, and CodeOverloaded if the server has no memory left for the page.
func (s *Store) List(ctx context.Context, f Filter) (page []Schedule, next string, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	page, cut, err := postgres.ReadPage(ctx, int64(f.Limit), func(n int64, last *Schedule) pgx.Rows {
		if last != nil {
			f.After = last.Name
		}
		query, args := sqlList, []any{f.After, n, postgres.LikePatterns(f.Allowed), f.Part}
		if f.Queue != "" {
			query, args = sqlListQueue, append(args, f.Queue)
		}
		rows, _ := s.pool.Query(ctx, query, args...)
		return rows
	}, scan)
	if err != nil {
		return nil, "", postgres.Wrapf(err, "listing schedules")
	}
	if len(page) > 0 && (cut || len(page) == f.Limit) {
		next = page[len(page)-1].Name
	}
	return page, next, nil
}

// change runs do in a transaction in which a schedule is locked. Errors: CodeNotFound, and the errors of the checks.
func (s *Store) change(ctx context.Context, name string, checks []Check, do func(ctx context.Context, tx pgx.Tx) error) error {
	return s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		exists, err := lock(ctx, tx, name, checks)
		if err == nil && !exists {
			err = ErrNoSchedule
		}
		if err != nil {
			return err
		}
		return do(ctx, tx)
	})
}

// Delete deletes a schedule. Its stored messages stay. Errors: CodeNotFound, CodeUnavailable, and the errors of the checks.
func (s *Store) Delete(ctx context.Context, name string, checks ...Check) error {
	err := s.change(ctx, name, checks, func(ctx context.Context, tx pgx.Tx) error {
		var deleted bool
		if err := tx.QueryRow(ctx, sqlDelete, name).Scan(&deleted); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"schedules": 1})
	})
	return wrap(err, "deleting schedule %q", name)
}

// SetPaused pauses a schedule, or resumes it. It reports whether this changed the schedule. The instants of a pause are missed
// instants, so Definition.Missed says what happens to them after the resume. Errors: CodeNotFound, CodeUnavailable, and the errors
// of the checks.
func (s *Store) SetPaused(ctx context.Context, name string, paused bool, reason string, checks ...Check) (changed bool, err error) {
	err = s.change(ctx, name, checks, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, sqlPause, name, paused, zeronull.Text(reason)).Scan(&changed); err != nil {
			return err
		}
		counts := audit.Counts{"changed": 0}
		if changed {
			counts["changed"] = 1
		}
		return audit.Write(ctx, tx, counts)
	})
	return changed, wrap(err, "pausing or resuming schedule %q", name)
}

// RunNow stores a message of a schedule at once, and returns its transaction id. {{scheduled_at}} is the time of the database. RunNow
// does not change the following instants. It also works if the schedule is paused, and ignores Definition.OverlapGroup. Later
// instants do not ignore this message. Errors: CodeNotFound, CodeUnavailable, and the errors of the checks.
func (s *Store) RunNow(ctx context.Context, name string, checks ...Check) (transactionID string, err error) {
	for range attempts {
		found, err := s.Get(ctx, name)
		if err != nil {
			return "", err
		}
		if err := run(checks, found.Queue); err != nil {
			return "", err
		}
		transactionID, err = s.runOnce(ctx, found)
		if !postgres.IsNoRows(err) {
			return transactionID, wrap(err, "running schedule %q", name)
		}
	}
	return "", errChanged
}

// runOnce returns pgx.ErrNoRows if the schedule was changed after it was read.
func (s *Store) runOnce(ctx context.Context, found *Schedule) (id string, err error) {
	id = transactionIDOfRun(found.Name, found.ReadAt)
	fill := filler(found.Name, found.ReadAt)
	// The span of the request creates the message.
	headers := given(string(tracing.Inject(ctx, queue.Headers(fill.Replace(string(found.Headers))))))
	err = s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var row int64
		err := tx.QueryRow(ctx, sqlRun, found.Name, found.ChangedAt, id, fill.Replace(string(found.Payload)), headers).Scan(&row)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"messages": 1})
	})
	return id, err
}

// Next returns the next n instants of a schedule, as Schedule.Next does. Errors: CodeNotFound, CodeInvalid, CodeUnavailable.
func (s *Store) Next(ctx context.Context, name string, n int) ([]time.Time, error) {
	found, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return found.Next(n)
}

// Instants returns the first n instants after an instant, at most 1,000. It returns fewer if fewer follow. Errors: CodeInvalid.
func Instants(spec when.Spec, after time.Time, n int) ([]time.Time, error) {
	rule, err := when.Parse(spec)
	if err != nil {
		return nil, err
	}
	var all []time.Time
	for at, ok := rule.Next(after); ok && len(all) < min(n, maxNext); at, ok = rule.Next(at) {
		all = append(all, at)
	}
	return all, nil
}
