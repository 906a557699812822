package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlPage           = sql.Query("deadletter/page")
	sqlDelete         = sql.Query("deadletter/delete")
	sqlRedriveLetters = sql.Query("deadletter/redrive_letters")
)

// Result is the result of Redrive or Purge.
type Result struct {
	// Matched is how many dead letters the filter selected at the beginning. It includes dead
	// letters that had failed by then but were committed later.
	Matched int64
	// Taken is how many of them were redriven or purged.
	Taken int64
	// Skipped is how many were reached and not taken. Redrive skips a dead letter whose group is
	// deleted, and deletes one whose message is deleted. Purge skips a dead letter that another
	// transaction holds. Both skip the ids that they read in an earlier epoch of the database.
	Skipped int64
	// Remaining is how many were not reached within the time of one call.
	Remaining int64
}

// batch holds ids of dead letters, and the epoch of the database in which they are valid.
type batch struct {
	ids   []int64
	epoch int64
}

// takeFunc redrives or purges a batch in one transaction and returns how many it took. In another
// epoch of the database it takes none.
type takeFunc func(ctx context.Context, b batch) (taken int64, err error)

// Redrive puts dead letters back for the group that they failed for. rate bounds the messages per
// second; 0 means no bound. With dryRun it only counts. It returns after about 10 seconds, or when
// ctx ends, and reports what remains. Errors: CodeUnavailable; the redriven messages stay redriven,
// and the same request continues.
func (l *Letters) Redrive(ctx context.Context, f Filter, rate int64, dryRun bool) (Result, error) {
	result, err := l.takePages(ctx, f, rate, dryRun, l.redrive)
	if err != nil {
		return result, postgres.Wrap(fmt.Errorf("redriving dead letters: %w", err))
	}
	return result, nil
}

// Purge deletes dead letters. Their messages stay in the log, consumed by the group. It is bounded
// as Redrive is. Errors: CodeUnavailable; the same request continues.
func (l *Letters) Purge(ctx context.Context, f Filter, dryRun bool) (Result, error) {
	result, err := l.takePages(ctx, f, 0, dryRun, func(ctx context.Context, b batch) (int64, error) {
		tag, err := l.pool.Exec(ctx, sqlDelete, b.ids, b.epoch)
		return tag.RowsAffected(), err
	})
	if err != nil {
		return result, postgres.Wrap(fmt.Errorf("purging dead letters: %w", err))
	}
	return result, nil
}

// takePages hands the dead letters of a filter to take, page by page. It leaves out what fails
// after the beginning, so that a consumer that fails at once does not keep it busy.
func (l *Letters) takePages(ctx context.Context, f Filter, rate int64, dryRun bool, take takeFunc) (Result, error) {
	countCtx, cancel := l.pool.Bounded(ctx)
	matched, now, err := l.count(countCtx, &f)
	cancel()
	result := Result{Matched: matched, Remaining: matched}
	if err != nil || dryRun {
		return result, err
	}
	if f.To.IsZero() || f.To.After(now) {
		f.To = now
	}
	size := l.pageSize
	if rate > 0 {
		size = min(size, rate)
	}
	started := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	var seen int64
	for after := (ListKey{}); ; {
		select {
		case <-ctx.Done():
		case <-next.C:
		}
		if ctx.Err() != nil {
			return result, nil //nolint:nilerr // the caller has left; what was taken stays taken
		}
		taken, n, last, err := l.takePage(ctx, &f, after, size, take)
		seen += n
		result.Taken += taken
		result.Skipped = seen - result.Taken
		result.Matched, result.Remaining = max(matched, seen), max(0, matched-seen)
		if n < size && err == nil {
			result.Remaining = 0
		}
		if err != nil || n < size {
			return result, err
		}
		after = last
		var due time.Duration
		if rate > 0 {
			due = time.Duration(float64(seen) / float64(rate) * float64(time.Second))
		}
		if max(due, time.Since(started)) >= l.budget {
			return result, nil
		}
		next.Reset(max(0, due-time.Since(started)))
	}
}

// takePage takes one page after a key. It returns the size of the page and its last key.
func (l *Letters) takePage(ctx context.Context, f *Filter, after ListKey, size int64, take takeFunc) (taken, n int64, last ListKey, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	rows, err := l.pool.Query(ctx, sqlPage, append(f.args(), timestamp(after.FailedAt), after.ID, size)...)
	if err != nil {
		return 0, 0, after, err
	}
	var b batch
	last = after
	_, err = pgx.ForEachRow(rows, []any{&last.ID, &last.FailedAt, &b.epoch}, func() error {
		b.ids = append(b.ids, last.ID)
		return nil
	})
	if err != nil || len(b.ids) == 0 {
		return 0, 0, last, err
	}
	taken, err = take(ctx, b)
	return taken, int64(len(b.ids)), last, err
}

// redrive is the takeFunc of Redrive.
func (l *Letters) redrive(ctx context.Context, b batch) (n int64, err error) {
	rows, err := l.pool.Query(ctx, sqlRedriveLetters, b.ids, b.epoch)
	if err != nil {
		return 0, err
	}
	var ready []queue.Ready
	var group, partition, redriven int64
	var seconds pgtype.Float8
	_, err = pgx.ForEachRow(rows, []any{&group, &partition, &redriven, &seconds}, func() error {
		n += redriven
		if seconds.Valid {
			ready = append(ready, readyIn(group, partition, seconds.Float64))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	l.events.Ready(ready, events.Here)
	return n, nil
}
