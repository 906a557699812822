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
	sqlRedriveLetters = sql.Query("engine/deadletter/redrive_letters")
	sqlOfMessage      = sql.Query("engine/deadletter/of_message")
)

// Result is the result of Redrive, Move or Purge.
type Result struct {
	// Matched is the number of dead letters that existed at the count and that the filter selects.
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
	// AsOf bounds a later action to the counted dead letters.
	AsOf AsOf
}

// batch holds ids of dead letters, and the epoch of the database in which they are valid. last is the
// key of the last row that was read, and read is the number of these rows. taken is the number of dead letters that earlier
// batches took.
type batch struct {
	ids   []int64
	last  ListKey
	epoch int64
	read  int64
	taken int64
	// A page has at most size rows. At most most of its rows are taken.
	size, most int64
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

// RedriveRecorded is RedriveAll that calls record in the transaction of each page with the number of its redriven messages. If
// record returns an error, the page is rolled back, and RedriveRecorded returns the error.
func (l *Letters) RedriveRecorded(ctx context.Context, f Filter, rate int64, record func(ctx context.Context, tx pgx.Tx, n int64) error) error {
	take := func(ctx context.Context, tx pgx.Tx, b batch) (n int64, ready []queue.Ready, err error) {
		if n, ready, err = redrive(ctx, tx, b); err == nil {
			err = record(ctx, tx, n)
		}
		return n, ready, err
	}
	_, err := l.takePages(ctx, f, run{rate: rate, budget: math.MaxInt64, take: take})
	return postgres.Wrapf(err, "redriving dead letters")
}

// run holds the parameters of takePages.
type run struct {
	// rate bounds the dead letters per second; 0 means no bound.
	rate   int64
	dryRun bool
	// most is the largest number of rows of a page; 0 means the default.
	most int64
	// budget is the time after which takePages stops.
	budget time.Duration
	take   takeFunc
	// before is called with each page before take. take gets the returned ids. before may be nil.
	before func(ctx context.Context, ids []int64) (kept []int64, err error)
	// report is called after each page; it may be nil.
	report func(Result) error
}

// takePages passes the dead letters of a filter to take, page by page. It leaves out dead letters that did not exist at the
// count, and it takes no more than the counted number. Otherwise a consumer that fails every redriven message would keep
// takePages busy forever.
func (l *Letters) takePages(ctx context.Context, f Filter, how run) (Result, error) {
	var err error
	f.AsOf, err = l.countAll(ctx, &f, f.AsOf, nil)
	matched := f.AsOf.N
	result := Result{Matched: matched, Remaining: matched, AsOf: f.AsOf}
	if err != nil && ctx.Err() != nil {
		return result, nil // the caller has left before anything was taken
	}
	if err != nil || how.dryRun {
		return result, err
	}
	size := l.pageSize
	if how.most > 0 {
		size = min(size, how.most)
	}
	if how.rate > 0 {
		size = min(size, how.rate)
	}
	started := time.Now()
	var after ListKey
	var seen int64
	var pause time.Duration
	for seen < matched && backoff.Sleep(ctx, pause) == nil {
		page, taken, err := l.takePage(ctx, &f, batch{last: after, taken: result.Taken, size: size, most: matched - seen}, &how)
		n := int64(len(page.ids))
		seen += n
		result.Taken += taken
		result.Skipped = seen - result.Taken
		result.Remaining = matched - seen
		if err != nil {
			return result, err
		}
		if page.read < size { // others took what is missing
			result.Remaining = 0
		}
		if how.report != nil {
			err = how.report(result)
		}
		if err != nil || page.read < size {
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

// takePage takes the dead letters of a page after b.last. The page has b.size rows, or fewer at the end.
func (l *Letters) takePage(client context.Context, f *Filter, b batch, how *run) (page batch, taken int64, err error) {
	b, err = l.readPage(client, f, b)
	if err != nil {
		return batch{}, 0, err
	}
	if b.ids = b.ids[:min(b.most, int64(len(b.ids)))]; len(b.ids) == 0 {
		return b, 0, nil
	}
	take := b
	if how.before != nil {
		if take.ids, err = how.before(client, b.ids); err != nil || len(take.ids) == 0 {
			return b, 0, err
		}
	}
	ctx, cancel := l.pool.Bounded(client)
	defer cancel()
	taken, err = l.take(ctx, take, how.take)
	return b, taken, err
}

// readPage reads the ids of a page after b.last.
func (l *Letters) readPage(ctx context.Context, f *Filter, b batch) (batch, error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	rows, _ := l.pool.Query(ctx, sqlPage, append(f.args(ctx, l.pool), zeronull.Timestamptz(b.last.FailedAt), b.last.ID, b.size, f.AsOf.Snapshot, f.AsOf.At)...)
	var existed bool
	_, err := pgx.ForEachRow(rows, []any{&b.last.ID, &b.last.FailedAt, &b.epoch, &existed}, func() error { // also returns the error of Query
		b.read++
		if existed {
			b.ids = append(b.ids, b.last.ID)
		}
		return nil
	})
	return b, err
}

// take runs a takeFunc and writes the audit row in one transaction. Then it publishes the partitions that became ready.
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
