package redrivejob

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlTake  = sql.Query("engine/redrivejob/take")
	sqlNext  = sql.Query("engine/redrivejob/next")
	sqlMoved = sql.Query("engine/redrivejob/moved")
	sqlEnd   = sql.Query("engine/redrivejob/end")
)

// errTaken ends the run of a job that was stopped, or whose lease another instance has.
var errTaken = errors.New("the job was stopped, or another instance runs it")

// maxRunning is how many jobs one instance runs at once. More jobs wait.
const maxRunning = 8

// Run runs jobs until ctx ends, and waits for them. It looks for jobs at once, after each signal, and when the lease of another
// instance ends. It returns nil.
func (j *Jobs) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, maxRunning)
	j.wanted.Set()
	for j.sleep(ctx, 0) {
		for wait := time.Duration(1); wait > 0; {
			var err error
			if wait, err = j.work(ctx, slots, &running); err != nil && ctx.Err() == nil {
				j.log.Warn("looking for redrive jobs failed; it will be tried again", zap.Duration("after", j.retry), zap.Error(err))
				wait = j.retry
			}
			if wait > 0 && !j.sleep(ctx, wait) {
				return nil
			}
		}
	}
	return nil
}

// sleep waits for the signal, and at most for a duration if it is positive. It returns false when ctx ends.
func (j *Jobs) sleep(ctx context.Context, wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-j.wanted:
	case <-due:
	}
	return true
}

// work starts the jobs that have no lease. It returns how long to wait for the end of a lease; 0 means that no job runs.
func (j *Jobs) work(ctx context.Context, slots chan struct{}, running *sync.WaitGroup) (wait time.Duration, err error) {
	for len(slots) < maxRunning {
		one, lease, err := j.take(ctx)
		if err != nil {
			return 0, err
		}
		if one == nil {
			break
		}
		slots <- struct{}{} // does not block: only this goroutine fills the slots
		running.Go(func() {
			if err := j.run(ctx, one, lease); err != nil {
				j.log.Warn("a redrive job was interrupted; it continues when its lease ends", zap.Stringer("job", one), zap.Error(err))
			}
			<-slots
			j.wanted.Set()
		})
	}
	var seconds zeronull.Float8
	if err := j.pool.ScanRow(ctx, []any{&seconds}, sqlNext); err != nil {
		return 0, postgres.Wrapf(err, "reading the leases of redrives")
	}
	if seconds == 0 {
		return 0, nil
	}
	return max(time.Duration(float64(seconds)*float64(time.Second)), 0) + afterLease, nil
}

// afterLease is the time between the end of a lease and the attempt to take its job.
const afterLease = 100 * time.Millisecond

// take leases a job. It returns nil if no job is without a lease. Filter.AsOf bounds what the job may still redrive.
func (j *Jobs) take(ctx context.Context) (*Job, queue.ID, error) {
	one, lease := &Job{}, queue.NewID()
	f := &one.Filter
	err := j.pool.ScanRow(ctx, []any{
		(*[16]byte)(&one.ID), &f.Queue, &f.Group, &f.Partition, &f.TransactionID, &f.Error,
		(*zeronull.Timestamptz)(&f.From), (*zeronull.Timestamptz)(&f.To), &one.Rate, &f.AsOf.N, &f.AsOf.Snapshot, &f.AsOf.At, &f.AsOf.Epoch, &one.outdated,
	}, sqlTake, [16]byte(lease), j.lease.Seconds(), j.instance)
	if postgres.IsNoRows(err) {
		return nil, lease, nil
	}
	return one, lease, postgres.Wrapf(err, "taking a redrive")
}

// run runs a job to its end.
func (j *Jobs) run(ctx context.Context, one *Job, lease queue.ID) error {
	err := j.recount(ctx, one)
	if err == nil {
		err = j.redrive(ctx, one, lease)
	}
	state, failure := Done, ""
	switch code := queue.CodeOf(err); {
	case errors.Is(err, errTaken):
		return nil
	case ctx.Err() != nil: // another instance continues at once
		state, err = "", nil
	case code == queue.CodeUnavailable: // this or another instance continues when the lease ends
		return err
	case err != nil:
		state, failure = Failed, "the log of the instance has the reason"
		j.log.Error("a redrive job failed", zap.Stringer("job", one), zap.Error(err))
		err = nil
	}
	return errors.Join(err, j.end(ctx, one.ID, lease, state, failure))
}

// recount counts again if Postgres was started again or restored after the count, because then the snapshot of the count has no
// meaning. The job redrives no more than what was left of its count, and no dead letter that failed after its start.
func (j *Jobs) recount(ctx context.Context, one *Job) error {
	if !one.outdated {
		return nil
	}
	left := one.Filter.AsOf.N
	one.Filter.AsOf = deadletter.AsOf{}
	counted, err := j.letters.Redrive(ctx, one.Filter, one.Rate, true)
	one.Filter.AsOf = counted.AsOf
	one.Filter.AsOf.N = min(left, counted.AsOf.N)
	return err
}

// redrive redrives the dead letters of a job.
func (j *Jobs) redrive(ctx context.Context, one *Job, lease queue.ID) error {
	return j.letters.RedriveRecorded(ctx, one.Filter, one.Rate, func(ctx context.Context, tx pgx.Tx, n int64) error {
		err := tx.QueryRow(ctx, sqlMoved, [16]byte(one.ID), [16]byte(lease), n, j.lease.Seconds()).Scan(nil)
		if postgres.IsNoRows(err) {
			return errTaken
		}
		return err
	})
}

// end ends a job, or gives its lease back if state is empty.
func (j *Jobs) end(ctx context.Context, id, lease queue.ID, state, failure string) error {
	ctx, cancel := j.pool.Bounded(context.WithoutCancel(ctx))
	defer cancel()
	_, err := j.pool.Exec(ctx, sqlEnd, [16]byte(id), [16]byte(lease), zeronull.Text(state), zeronull.Text(failure))
	return postgres.Wrapf(err, "ending the redrive %s", id)
}
