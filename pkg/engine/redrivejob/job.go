package redrivejob

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlCreate = sql.Query("engine/redrivejob/create")
	sqlStop   = sql.Query("engine/redrivejob/stop")
	sqlList   = sql.Query("engine/redrivejob/list")
)

// The states of a job.
const (
	Running = "running"
	Done    = "done"
	Stopped = "stopped"
	Failed  = "failed"
)

// ErrNoJob is the error for a job that does not exist.
var ErrNoJob = &queue.Error{Code: queue.CodeNotFound, Message: "Redrive job not found"}

// Job is a job with its progress. Empty fields do not apply.
type Job struct {
	ID     queue.ID
	Filter deadletter.Filter
	// Rate is the greatest number of messages per second. 0 means no limit.
	Rate int64
	// Matched is the number of dead letters of the count. Redriven is how many of them were delivered again.
	Matched, Redriven  int64
	Subject            string
	CreatedAt, EndedAt time.Time
	State, Failure     string
	Instance           string
	// outdated is true if the database is in another epoch than at the count.
	outdated bool
}

// Letters redrives dead letters. *deadletter.Letters implements it.
type Letters interface {
	// Redrive with dryRun counts the dead letters of a filter.
	Redrive(ctx context.Context, f deadletter.Filter, rate int64, dryRun bool) (deadletter.Result, error)
	// RedriveRecorded redrives the dead letters of the count in f.AsOf. It calls record in the transaction of each page.
	RedriveRecorded(ctx context.Context, f deadletter.Filter, rate int64, record func(ctx context.Context, tx pgx.Tx, n int64) error) error
}

// Jobs starts, runs, lists and stops jobs. It is safe for concurrent use.
type Jobs struct {
	events.Nop

	pool     *postgres.Pool
	letters  Letters
	log      *zap.Logger
	instance string
	// wanted is set if a job may be without a lease.
	wanted events.Signal
	// lease is how long a lease lasts. retry is the pause after an error.
	lease, retry time.Duration
}

// New returns Jobs. instance is the name of this instance. Subscribe it to the bus, so that it learns of new jobs.
func New(pool *postgres.Pool, letters Letters, instance string, log *zap.Logger) *Jobs {
	return &Jobs{
		pool: pool, letters: letters, instance: instance, log: log, wanted: events.NewSignal(), lease: 30 * time.Second, retry: 5 * time.Second,
	}
}

// OnSetting wakes Run: another instance may have started a job.
func (j *Jobs) OnSetting() { j.wanted.Set() }

// OnListening wakes Run: notifications may have been lost.
func (j *Jobs) OnListening() { j.wanted.Set() }

// Start starts a job, and returns it. f has a queue and a group. The job redrives the dead letters of the count in f.AsOf, or, if it
// is zero, of a count that Start makes. Start writes the row of the audit of ctx, which must have an
// entry. Errors: CodeUnavailable.
func (j *Jobs) Start(ctx context.Context, f deadletter.Filter, rate int64) (Job, error) {
	id := queue.NewID()
	if e := audit.From(ctx); e != nil {
		id = e.ID
	}
	counted, err := j.letters.Redrive(ctx, f, rate, true)
	if err != nil {
		return Job{}, err
	}
	subject := ""
	if e := audit.From(ctx); e != nil {
		subject = e.Subject
	}
	failure := f.Error
	if failure != nil {
		stored := j.pool.Storable(ctx, *failure)
		failure = &stored
	}
	err = j.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := audit.Write(ctx, tx, audit.Counts{"deadLetters": 0}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlCreate, [16]byte(id), f.Queue, f.Group, f.Partition, f.TransactionID, failure,
			zeronull.Timestamptz(f.From), zeronull.Timestamptz(f.To), rate, counted.Matched, zeronull.Text(subject),
			counted.AsOf.Snapshot, counted.AsOf.At, counted.AsOf.Epoch)
		return err
	})
	if err != nil {
		return Job{}, postgres.Wrapf(err, "starting a redrive of queue %q", *f.Queue)
	}
	j.wanted.Set()
	return j.Get(ctx, id)
}

// Get returns a job. Errors: CodeNotFound, CodeUnavailable.
func (j *Jobs) Get(ctx context.Context, id queue.ID) (Job, error) {
	found, err := j.list(ctx, &id, nil, 1)
	switch {
	case err != nil:
		return Job{}, err
	case len(found) == 0:
		return Job{}, ErrNoJob
	}
	return found[0], nil
}

// List returns the newest jobs. allowed are patterns of names of queues; nil selects all. Errors: CodeUnavailable.
func (j *Jobs) List(ctx context.Context, allowed []string, limit int64) ([]Job, error) {
	return j.list(ctx, nil, allowed, limit)
}

func (j *Jobs) list(ctx context.Context, id *queue.ID, allowed []string, limit int64) ([]Job, error) {
	jobs, err := postgres.Collect(ctx, j.pool, sqlList, func(row pgx.CollectableRow) (one Job, err error) {
		f := &one.Filter
		err = row.Scan((*[16]byte)(&one.ID), &f.Queue, &f.Group, &f.Partition, &f.TransactionID, &f.Error,
			(*zeronull.Timestamptz)(&f.From), (*zeronull.Timestamptz)(&f.To), &one.Rate, &one.Matched, &one.Redriven,
			(*zeronull.Text)(&one.Subject), &one.CreatedAt, (*zeronull.Timestamptz)(&one.EndedAt), &one.State,
			(*zeronull.Text)(&one.Failure), (*zeronull.Text)(&one.Instance))
		return one, err
	}, (*[16]byte)(id), postgres.LikePatterns(allowed), limit)
	return jobs, postgres.Wrapf(err, "listing redrives")
}

// Stop stops a job. What is redriven stays redriven. It does nothing if the job has ended. Errors: CodeNotFound, CodeUnavailable.
func (j *Jobs) Stop(ctx context.Context, id queue.ID) error {
	err := j.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var ran bool
		err := tx.QueryRow(ctx, sqlStop, [16]byte(id)).Scan(&ran)
		if postgres.IsNoRows(err) {
			return ErrNoJob
		}
		if err != nil {
			return err
		}
		counts := audit.Counts{"jobs": 0}
		if ran {
			counts["jobs"] = 1
		}
		return audit.Write(ctx, tx, counts)
	})
	if queue.CodeOf(err) == queue.CodeNotFound {
		return err
	}
	return postgres.Wrapf(err, "stopping the redrive %s", id)
}

// String returns a short description for the log.
func (j *Job) String() string {
	return fmt.Sprintf("redrive %s of queue %q", j.ID, *j.Filter.Queue)
}
