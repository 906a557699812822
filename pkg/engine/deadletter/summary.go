package deadletter

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// MaxExamined bounds how many dead letters one summary examines.
const MaxExamined = 10_000

var (
	sqlSummary = sql.Query("engine/deadletter/summary")
	sqlLetters = sql.Query("engine/deadletter/letters")
)

// SummaryBounds bound a summary.
type SummaryBounds struct {
	// Examine is how many dead letters are examined, from 1 to MaxExamined.
	Examine int64
	// Groups is how many errors, and how many partitions, are returned: those with the most dead letters.
	Groups int64
	// Letters is how many of the newest matching dead letters are returned.
	Letters int64
}

// Count is a number of dead letters of a group with the same error, or in the same partition.
type Count struct {
	Queue, Group string
	// Error is the first MaxError characters, of an error count.
	Error string
	// Partition and PartitionID name the partition, of a partition count.
	Partition   string
	PartitionID queue.ID
	N           int64
	// Oldest and Newest are the first and the last failure.
	Oldest, Newest time.Time
}

// Summary counts the dead letters that a filter selects.
type Summary struct {
	// Examined is how many were read, and Matched how many of them the filter selected.
	Examined, Matched int64
	// Next is where to go on. It is zero if all were examined; otherwise more than Matched may match.
	Next               ListKey
	Errors, Partitions []Count
	// Letters are the newest ones. LettersNext is where a list of them goes on, zero at the end.
	Letters     []Letter
	LettersNext ListKey
}

// Summary examines the newest dead letters after a key, and counts those that a filter selects by error
// and by partition. With Filter.Queue the order is that of the failures, otherwise that of the ids, which
// is nearly the same. Errors: CodeUnavailable.
func (l *Letters) Summary(ctx context.Context, f Filter, after ListKey, bounds SummaryBounds) (s Summary, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	var ids []int64
	rows, _ := l.pool.Query(ctx, sqlSummary, append(f.args(ctx, l.pool), zeronull.Timestamptz(after.FailedAt), zeronull.Int8(after.ID),
		bounds.Examine, postgres.LikePatterns(f.Allowed), bounds.Groups, bounds.Letters)...)
	var kind, examined int64
	var end ListKey
	var newest []int64
	var c Count
	_, err = pgx.ForEachRow(rows, []any{ // also returns the error of Query
		&kind, &c.N, &examined, (*zeronull.Timestamptz)(&end.FailedAt), (*zeronull.Int8)(&end.ID), &newest, &c.Queue, &c.Group, &c.Error, &c.Partition,
		(*zeronull.UUID)(&c.PartitionID), (*zeronull.Timestamptz)(&c.Oldest), (*zeronull.Timestamptz)(&c.Newest),
	}, func() error {
		switch kind {
		case 0:
			s.Matched, s.Examined, s.Next, ids = c.N, examined, end, newest
		case 1:
			s.Errors = append(s.Errors, c)
		default:
			s.Partitions = append(s.Partitions, c)
		}
		return nil
	})
	if err == nil && len(ids) > 0 {
		s.Letters, err = l.read(ctx, ids)
	}
	s.LettersNext = s.Next
	if n := len(s.Letters); n > 0 && s.Matched > int64(n) {
		s.LettersNext = s.Letters[n-1].ListKey
	}
	return s, postgres.Wrapf(err, "summing up dead letters")
}
