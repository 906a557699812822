package deadletter

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlPage           = sql.Query("engine/deadletter/page")
	sqlDelete         = sql.Query("engine/deadletter/delete")
	sqlRedriveLetters = sql.Query("engine/deadletter/redrive_letters")
	sqlOfMessage      = sql.Query("engine/deadletter/of_message")
)

// Result is the result of Redrive, Move or Purge.
type Result struct {
	// Matched is the number of dead letters that the filter selected at the beginning. It includes
	// dead letters that had failed before the beginning but were committed later.
	Matched int64
	// Taken is the number of dead letters that were redriven, moved or purged.
	Taken int64
	// Skipped is the number of dead letters that were examined but not taken. Redrive skips a dead
	// letter whose group is deleted. It also counts a dead letter whose message is deleted as
	// skipped, and deletes it. Purge skips a dead letter that another transaction has locked. Both
	// skip ids that they read in an earlier epoch of the database.
	Skipped int64
	// Remaining is the number of dead letters that were not examined within the time of one call.
	Remaining int64
}

// batch holds ids of dead letters, and the epoch of the database in which they are valid. last is the
// key of the last dead letter. taken is the number of dead letters that earlier batches took.
type batch struct {
	ids   []int64
	last  ListKey
	epoch int64
	taken int64
}

// takeFunc redrives, moves or purges a batch in tx, and returns the number of taken dead letters and the
// partitions that become ready. In another epoch of the database it takes no dead letter.
type takeFunc func(ctx context.Context, tx pgx.Tx, b batch) (taken int64, ready []queue.Ready, err error)

// Redrive puts dead letters back for the group that they failed for. rate bounds the messages per
// second; 0 means no bound. With dryRun it only counts. It returns after about 10 seconds, or when
// ctx ends, and reports how many dead letters remain. Errors: CodeUnavailable; the redriven
// messages stay redriven, and the same request continues.
func (l *Letters) Redrive(ctx context.Context, f Filter, rate int64, dryRun bool) (Result, error) {
	result, err := l.takePages(ctx, f, run{rate: rate, dryRun: dryRun, budget: l.budget, take: redrive})
	return result, postgres.Wrapf(err, "redriving dead letters")
}

// RedriveAll is Redrive without a bound on its time. It calls report after each transaction. A transaction redrives at
// most 1,000 messages and, with a rate, at most the messages of one second. RedriveAll returns when all dead letters
// are redriven or ctx ends. If report fails, RedriveAll returns the error of report. Before each report, and before it
// returns nil, RedriveAll waits until no failover can undo its commits (postgres.Pool.Confirm).
func (l *Letters) RedriveAll(ctx context.Context, f Filter, rate int64, report func(Result) error) (Result, error) {
	safe := func(so Result) error {
		if err := l.pool.Confirm(ctx); err != nil {
			return err
		}
		return report(so)
	}
	result, err := l.takePages(ctx, f, run{rate: rate, budget: math.MaxInt64, take: redrive, report: safe})
	if err == nil {
		err = l.pool.Confirm(ctx)
	}
	return result, postgres.Wrapf(err, "redriving dead letters")
}

// Purge deletes dead letters. Their messages stay in the log, consumed by the group. It has the
// time limit of Redrive. Errors: CodeUnavailable; the same request continues.
func (l *Letters) Purge(ctx context.Context, f Filter, dryRun bool) (Result, error) {
	result, err := l.takePages(ctx, f, run{dryRun: dryRun, budget: l.budget, take: purge})
	return result, postgres.Wrapf(err, "purging dead letters")
}

// purge is the takeFunc of Purge.
func purge(ctx context.Context, tx pgx.Tx, b batch) (n int64, ready []queue.Ready, err error) {
	tag, err := tx.Exec(ctx, sqlDelete, b.ids, b.epoch)
	return tag.RowsAffected(), nil, err
}

// run holds the parameters of takePages.
type run struct {
	// rate bounds the dead letters per second; 0 means no bound.
	rate   int64
	dryRun bool
	// budget is the time after which takePages stops.
	budget time.Duration
	take   takeFunc
	// report is called after each page; it may be nil.
	report func(Result) error
}

// takePages passes the dead letters of a filter to take, page by page. It leaves out messages that
// fail after it began. Otherwise a consumer that fails every redriven message would keep takePages
// busy forever.
func (l *Letters) takePages(ctx context.Context, f Filter, how run) (Result, error) {
	countCtx, cancel := l.pool.Bounded(ctx)
	matched, now, err := l.count(countCtx, &f)
	cancel()
	result := Result{Matched: matched, Remaining: matched}
	if err != nil || how.dryRun {
		return result, err
	}
	if f.To.IsZero() || f.To.After(now) {
		f.To = now
	}
	size := l.pageSize
	if how.rate > 0 {
		size = min(size, how.rate)
	}
	started := time.Now()
	var after ListKey
	var seen int64
	var pause time.Duration
	for backoff.Sleep(ctx, pause) == nil {
		page, taken, err := l.takePage(ctx, &f, batch{last: after, taken: result.Taken}, size, how.take)
		n := int64(len(page.ids))
		seen += n
		result.Taken += taken
		result.Skipped = seen - result.Taken
		result.Matched, result.Remaining = max(matched, seen), max(0, matched-seen)
		if err != nil {
			return result, err
		}
		if n < size {
			result.Remaining = 0
		}
		if how.report != nil {
			err = how.report(result)
		}
		if err != nil || n < size {
			return result, err
		}
		after = page.last
		var due time.Duration
		if how.rate > 0 {
			due = time.Duration(float64(seen) / float64(how.rate) * float64(time.Second))
		}
		if max(due, time.Since(started)) >= how.budget {
			break
		}
		pause = due - time.Since(started)
	}
	return result, nil // if ctx has ended, the taken dead letters stay taken
}

// takePage takes one page after b.last.
func (l *Letters) takePage(ctx context.Context, f *Filter, b batch, size int64, take takeFunc) (page batch, taken int64, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	rows, _ := l.pool.Query(ctx, sqlPage, append(f.args(ctx, l.pool), zeronull.Timestamptz(b.last.FailedAt), b.last.ID, size)...)
	_, err = pgx.ForEachRow(rows, []any{&b.last.ID, &b.last.FailedAt, &b.epoch}, func() error { // also returns the error of Query
		b.ids = append(b.ids, b.last.ID)
		return nil
	})
	if err != nil || len(b.ids) == 0 {
		return batch{}, 0, err
	}
	taken, err = l.take(ctx, b, take)
	return b, taken, err
}

// take runs a takeFunc and writes the audit row in one transaction. Then it publishes the
// partitions that became ready.
func (l *Letters) take(ctx context.Context, b batch, take takeFunc) (n int64, err error) {
	var ready []queue.Ready
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) (err error) {
		if n, ready, err = take(ctx, tx, b); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"deadLetters": b.taken + n})
	})
	if err != nil {
		return 0, err
	}
	l.events.Ready(ready, events.Here)
	return n, nil
}

// redrive is the takeFunc of Redrive.
func redrive(ctx context.Context, tx pgx.Tx, b batch) (n int64, ready []queue.Ready, err error) {
	var group, partition, redriven int64
	var in *postgres.Seconds
	rows, _ := tx.Query(ctx, sqlRedriveLetters, b.ids, b.epoch)
	_, err = pgx.ForEachRow(rows, []any{&group, &partition, &redriven, &in}, func() error { // also returns the error of Query
		n += redriven
		ready = appendReady(ready, group, partition, in)
		return nil
	})
	return n, ready, err
}

func groupText(group *string) string {
	if group == nil {
		return "any consumer group"
	}
	return fmt.Sprintf("consumer group %q", *group)
}

var (
	sqlMove       = sql.Query("engine/deadletter/move")
	sqlMoveQueues = sql.Query("engine/deadletter/move_queues")
)

// Move pushes the messages of dead letters to the queue target and deletes these dead letters. One transaction does both
// for up to 1,000 dead letters, so no message is lost or moved twice. A pushed message keeps its partition name, payload,
// transaction id and trace id. Move writes the message to the inbox, and the sequencer may reject it there
// (pkg/engine/inbox). If the partition of target already has the transaction id, the message is not stored again.
//
// f.Queue must be set and differ from target. Result.Skipped includes dead letters whose message is deleted or encrypted.
// Move keeps these dead letters. It has the time limit of Redrive. Errors: CodeInvalid if the payloads of f.Queue are
// encrypted, because the inbox would store them in the clear; CodeNotFound if target does not exist; CodeUnavailable, as in
// Redrive.
func (l *Letters) Move(ctx context.Context, f Filter, target string, rate int64, dryRun bool) (Result, error) {
	if err := l.checkMove(ctx, *f.Queue, target); err != nil {
		return Result{}, err
	}
	move := func(ctx context.Context, tx pgx.Tx, b batch) (n int64, ready []queue.Ready, err error) {
		err = tx.QueryRow(ctx, sqlMove, b.ids, b.epoch, target).Scan(&n)
		return n, nil, err
	}
	result, err := l.takePages(ctx, f, run{rate: rate, dryRun: dryRun, budget: l.budget, take: move})
	return result, postgres.Wrapf(err, "moving dead letters to queue %q", target)
}

func (l *Letters) checkMove(ctx context.Context, source, target string) error {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	var sealed, exists bool
	err := l.pool.QueryRow(ctx, sqlMoveQueues, source, target).Scan(&sealed, &exists)
	switch {
	case err != nil:
		return postgres.Wrapf(err, "reading queues %q and %q", source, target)
	case sealed:
		return queue.Invalidf("queue %q has encryptionEnabled: its dead letters cannot be moved, because that would store their payloads in the clear", source)
	case !exists:
		return &queue.Error{Code: queue.CodeNotFound, Message: fmt.Sprintf("queue %q does not exist: create it first", target)}
	}
	return nil
}
