package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// Done tells what Redrive or Purge did.
type Done struct {
	// Matched is how many dead letters the filter chose at the beginning, with those
	// that had failed by then but were committed while it went on.
	Matched int64
	// Taken of them were put back, or purged.
	Taken int64
	// Skipped cannot be put back: their group is gone (they stay), or their
	// message is (they do not). Those that somebody else works on are not purged. When
	// the database was restored meanwhile, what had been found in it before is left alone.
	Skipped int64
	// Remaining were not reached in the time of one call.
	Remaining int64
}

// Redrive puts dead letters back for the group they failed for. rate bounds the
// messages per second; 0: as fast as it goes. dryRun only counts. It ends after
// some seconds, or with ctx, and tells what remains; what was put back until then
// stays so. Errors: CodeUnavailable; asking again goes on.
func (l *Letters) Redrive(ctx context.Context, f Filter, rate int64, dryRun bool) (Done, error) {
	done, err := l.each(ctx, f, rate, dryRun, l.redrive)
	if err != nil {
		return done, postgres.Wrap(fmt.Errorf("redriving dead letters: %w", err))
	}
	return done, nil
}

// Purge deletes dead letters; their messages stay in the log, done for the group.
// It is bounded as Redrive is. Errors: CodeUnavailable; asking again goes on.
func (l *Letters) Purge(ctx context.Context, f Filter, dryRun bool) (Done, error) {
	done, err := l.each(ctx, f, 0, dryRun, func(ctx context.Context, found living) (int64, error) {
		tag, err := l.pool.Exec(ctx, sql.Query("deadletter/delete"), found.ids, found.life)
		return tag.RowsAffected(), err
	})
	if err != nil {
		return done, postgres.Wrap(fmt.Errorf("purging dead letters: %w", err))
	}
	return done, nil
}

// living are ids of dead letters, which they have in one life of the database.
type living struct {
	ids  []int64
	life int64
}

// each hands the dead letters of a filter to take, page by page. What fails after
// the beginning is left out, so a consumer that fails at once cannot keep it busy.
func (l *Letters) each(ctx context.Context, f Filter, rate int64, dryRun bool, take func(context.Context, living) (int64, error)) (Done, error) {
	countCtx, cancel := l.pool.Bounded(ctx)
	matched, now, err := l.count(countCtx, &f)
	cancel()
	done := Done{Matched: matched, Remaining: matched}
	if err != nil || dryRun {
		return done, err
	}
	if f.To.IsZero() || f.To.After(now) {
		f.To = now
	}
	size := l.page
	if rate > 0 {
		size = min(size, rate)
	}
	started := time.Now()
	pace := time.NewTimer(0)
	defer pace.Stop()
	var seen int64
	for after := (Place{}); ; {
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
		if ctx.Err() != nil {
			return done, nil //nolint:nilerr // the caller has left; what is done is done
		}
		taken, n, last, err := l.step(ctx, &f, after, size, take)
		seen += n
		done.Taken += taken
		done.Skipped = seen - done.Taken
		done.Matched, done.Remaining = max(matched, seen), max(0, matched-seen)
		if n < size && err == nil {
			done.Remaining = 0
		}
		if err != nil || n < size {
			return done, err
		}
		after = last
		var due time.Duration
		if rate > 0 {
			due = time.Duration(float64(seen) / float64(rate) * float64(time.Second))
		}
		if max(due, time.Since(started)) >= l.budget {
			return done, nil
		}
		pace.Reset(max(0, due-time.Since(started)))
	}
}

// step takes one page.
func (l *Letters) step(ctx context.Context, f *Filter, after Place, size int64, take func(context.Context, living) (int64, error),
) (taken, n int64, last Place, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	rows, err := l.pool.Query(ctx, sql.Query("deadletter/page"), append(f.args(), instant(after.FailedAt), after.ID, size)...)
	if err != nil {
		return 0, 0, after, err
	}
	var found living
	last = after
	_, err = pgx.ForEachRow(rows, []any{&last.ID, &last.FailedAt, &found.life}, func() error {
		found.ids = append(found.ids, last.ID)
		return nil
	})
	if err != nil || len(found.ids) == 0 {
		return 0, 0, last, err
	}
	taken, err = take(ctx, found)
	return taken, int64(len(found.ids)), last, err
}

// redrive puts dead letters back, in one transaction; none in another life of the
// database.
func (l *Letters) redrive(ctx context.Context, found living) (n int64, err error) {
	rows, err := l.pool.Query(ctx, sql.Query("deadletter/redrive_letters"), found.ids, found.life)
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
	l.announce(ready)
	return n, nil
}
