package deadletter

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlDelete = sql.Query("engine/deadletter/delete")

// Purge deletes dead letters. Their messages stay in the log, consumed by the group. It is bounded
// as Redrive is. Errors: CodeUnavailable; the same request continues.
func (l *Letters) Purge(ctx context.Context, f Filter, dryRun bool) (Result, error) {
	result, err := l.takePages(ctx, f, run{dryRun: dryRun, budget: l.budget, take: purge})
	return result, postgres.Wrapf(err, "purging dead letters")
}

// purge is the takeFunc of Purge.
func purge(ctx context.Context, tx pgx.Tx, b batch) (n int64, ready []queue.Ready, err error) {
	tag, err := tx.Exec(ctx, sqlDelete, b.ids, b.epoch)
	return tag.RowsAffected(), nil, err
}

// exportPage is how many dead letters PurgeTo deletes in one transaction.
const exportPage = 500

// PurgeTo is Purge without a bound on its time, which hands the dead letters to write before it deletes them, the oldest failure
// first. It deletes those that write has accepted, and no others. If a later step fails, some of the accepted ones may still
// exist. It ends when ctx ends, or with the error of write. Errors: CodeUnavailable.
func (l *Letters) PurgeTo(ctx context.Context, f Filter, write func([]Letter) error) (Result, error) {
	before := func(ctx context.Context, ids []int64) (kept []int64, err error) {
		for len(ids) > 0 {
			written, err := l.write(ctx, ids, write)
			if err != nil || len(written) == 0 { // none: the others are gone
				return kept, err
			}
			ids = ids[slices.Index(ids, written[len(written)-1])+1:]
			kept = append(kept, written...)
		}
		return kept, nil
	}
	result, err := l.takePages(ctx, f, run{budget: math.MaxInt64, most: exportPage, take: purge, before: before})
	return result, postgres.Wrapf(err, "writing and purging dead letters")
}

// write hands the first of some dead letters to a function, as many as the memory of a request holds. It returns their ids.
func (l *Letters) write(ctx context.Context, ids []int64, write func([]Letter) error) (written []int64, err error) {
	ctx, end := inflight.Fork(ctx)
	defer end()
	letters, err := l.read(ctx, ids)
	if err == nil && len(letters) > 0 {
		err = write(letters)
	}
	if err != nil {
		return nil, err
	}
	for i := range letters {
		written = append(written, letters[i].ID)
	}
	return written, nil
}

// read reads the first of some dead letters, as many as the memory of a request holds.
func (l *Letters) read(ctx context.Context, ids []int64) ([]Letter, error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	left := ids
	letters, _, err := postgres.ReadPage(ctx, int64(len(ids)), func(n int64, _ *Letter) pgx.Rows {
		next := left[:min(n, int64(len(left)))]
		left = left[len(next):]
		rows, _ := l.pool.Query(ctx, sqlLetters, next)
		return rows
	}, l.readLetter)
	return letters, err
}
