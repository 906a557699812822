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
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlPut       = sql.Query("engine/schedule/put")
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
	// runAttempts is how often RunNow reads a schedule that is being changed.
	runAttempts = 5
)

// Store reads and changes schedules. It is safe for concurrent use. Each change writes the row of the audit of its context, if
// the context has an entry.
type Store struct{ pool *postgres.Pool }

// NewStore returns a Store.
func NewStore(pool *postgres.Pool) *Store { return &Store{pool} }

// Put creates or replaces a schedule, and reports whether it is new. A replaced schedule stays paused if it was paused. If its
// instants are the same as before, no instant is lost or repeated. Errors: CodeInvalid; the text says what to change.
// CodeUnavailable.
func (s *Store) Put(ctx context.Context, d *Definition) (created bool, err error) {
	if _, err := when.Parse(d.Spec); err != nil {
		return false, err
	}
	var headers *string
	if d.Headers != nil {
		text := string(d.Headers)
		headers = &text
	}
	err = s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, sqlPut, d.Name, d.Queue, string(d.Payload), zeronull.Text(d.Spec.Cron), zeronull.Int8(d.Spec.Every.Microseconds()),
			zeronull.Timestamptz(d.Spec.At), cmp.Or(d.Spec.Zone, "UTC"), cmp.Or(d.Partition, queue.DefaultPartition), headers, d.Delay.Microseconds(),
			zeronull.Timestamptz(d.Spec.Starts), zeronull.Timestamptz(d.Spec.Ends), d.Jitter.Microseconds(), cmp.Or(d.Missed, MissedOne),
			zeronull.Text(d.OverlapGroup)).Scan(&created)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"schedules": 1})
	})
	return created, wrap(err, "storing schedule %q", d.Name)
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
	found, err := postgres.Collect(ctx, s.pool, sqlGet, func(row pgx.CollectableRow) (Schedule, error) {
		one, _, err := scan(row)
		return one, err
	}, name)
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
	// Allowed are patterns of names of queues. Nil selects all queues.
	Allowed []string
	// After is the name after which the page begins.
	After string
	// Limit is how many schedules a page reads.
	Limit int
}

// List returns a page of schedules by name. next is Filter.After of the next page, or "" after the last page. A page can be
// shorter than Limit, because the schedules of queues that are not allowed are left out. Errors: CodeUnavailable.
func (s *Store) List(ctx context.Context, f Filter) (page []Schedule, next string, err error) {
	query, args := sqlList, []any{f.After, int64(f.Limit), postgres.LikePatterns(f.Allowed)}
	if f.Queue != "" {
		query, args = sqlListQueue, append(args, f.Queue)
	}
	read, last := 0, ""
	_, err = postgres.Collect(ctx, s.pool, query, func(row pgx.CollectableRow) (struct{}, error) {
		one, allowed, err := scan(row)
		if allowed {
			page = append(page, one)
		}
		read, last = read+1, one.Name
		return struct{}{}, err
	}, args...)
	if err != nil {
		return nil, "", postgres.Wrapf(err, "listing schedules")
	}
	if read < f.Limit {
		last = ""
	}
	return page, last, nil
}

// Delete deletes a schedule. Its stored messages stay. Errors: CodeNotFound, CodeUnavailable.
func (s *Store) Delete(ctx context.Context, name string) error {
	err := s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var deleted bool
		if err := tx.QueryRow(ctx, sqlDelete, name).Scan(&deleted); err != nil {
			return err
		}
		if !deleted {
			return ErrNoSchedule
		}
		return audit.Write(ctx, tx, audit.Counts{"schedules": 1})
	})
	return wrap(err, "deleting schedule %q", name)
}

// SetPaused pauses a schedule, or resumes it. It reports whether this changed the schedule. The instants of a pause are missed
// instants, so Definition.Missed says what happens to them after the resume. Errors: CodeNotFound, CodeUnavailable.
func (s *Store) SetPaused(ctx context.Context, name string, paused bool, reason string) (changed bool, err error) {
	err = s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, sqlPause, name, paused, zeronull.Text(reason)).Scan(&changed)
		if postgres.IsNoRows(err) {
			return ErrNoSchedule
		}
		if err != nil {
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

// RunNow stores a message of a schedule at once, and returns its transaction id. {{scheduled_at}} is the current time. RunNow
// does not change the following instants. It also works if the schedule is paused, and ignores Definition.OverlapGroup. Later
// instants do not ignore this message. Errors: CodeNotFound, CodeUnavailable.
func (s *Store) RunNow(ctx context.Context, name string) (transactionID string, err error) {
	for range runAttempts {
		found, err := s.Get(ctx, name)
		if err != nil {
			return "", err
		}
		transactionID, err = s.runOnce(ctx, found)
		if !postgres.IsNoRows(err) {
			return transactionID, wrap(err, "running schedule %q", name)
		}
	}
	return "", &queue.Error{Code: queue.CodeUnavailable, Message: "the schedule is being changed: send the request again"}
}

// runOnce returns pgx.ErrNoRows if the schedule was changed after it was read.
func (s *Store) runOnce(ctx context.Context, found *Schedule) (id string, err error) {
	now := time.Now().Truncate(time.Microsecond)
	id = transactionIDOfRun(found.Name, now)
	fill := filler(found.Name, now)
	var headers *string
	if found.Headers != nil {
		text := fill.Replace(string(found.Headers))
		headers = &text
	}
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

// Next returns the next n instants of a schedule that are not handled yet, without jitter. It returns fewer if fewer follow. If
// the schedule is paused, it returns instants after the current time. Errors: CodeNotFound, CodeInvalid, CodeUnavailable.
func (s *Store) Next(ctx context.Context, name string, n int) ([]time.Time, error) {
	found, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	after := found.handledTo
	if now := time.Now(); found.Paused && now.After(after) {
		after = now
	}
	return Instants(found.Spec, after, n)
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
