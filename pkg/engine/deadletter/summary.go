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

// MaxExamined is the maximum number of dead letters that one summary examines.
const MaxExamined = 50_000

var (
	sqlSummary = sql.Query("engine/deadletter/summary")
	sqlLetters = sql.Query("engine/deadletter/letters")
)

// SummaryBounds bound a summary.
type SummaryBounds struct {
	// Examine is the number of dead letters to examine, from 1 to MaxExamined.
	Examine int64
	// Groups is the maximum length of Summary.Errors, of Summary.Shapes and of Summary.Partitions. The entries with the
	// most dead letters are returned.
	Groups int64
	// Letters is the maximum length of Summary.Letters.
	Letters int64
}

// Count is a number of dead letters of a group with the same error, or in the same partition.
type Count struct {
	Queue, Group string
	// Error is the first MaxError characters of the error. It is empty in a count of a partition.
	Error string
	// Shape is the shape of the error. In a count of a shape, Texts is the number of different errors, and Error is one of these.
	Shape string
	Texts int64
	// Partition and PartitionID are empty in a count of an error.
	Partition   string
	PartitionID queue.ID
	N           int64
	// Oldest and Newest are the first and the last failure.
	Oldest, Newest time.Time
}

// Summary counts the dead letters that a filter selects.
type Summary struct {
	// Examined is the number of dead letters that were read. Matched is the number of these that
	// the filter selected.
	Examined, Matched int64
	// Next is the key after which the next summary begins. It is zero if all dead letters were
	// examined. Otherwise more dead letters than Matched may match.
	Next                       ListKey
	Errors, Shapes, Partitions []Count
	// Letters are the newest matching dead letters. LettersNext is the key after which List
	// continues, zero at the end.
	Letters     []Letter
	LettersNext ListKey
}

// Summary examines the newest dead letters after a key, and counts the matching dead letters by error, by
// shape of the error and by partition. With Filter.Queue, it examines them in the order of their failures. Otherwise it uses the
// order of their ids, which is nearly the same. Errors: CodeUnavailable.
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
		&kind, &c.N, &examined, (*zeronull.Timestamptz)(&end.FailedAt), (*zeronull.Int8)(&end.ID), &newest, &c.Queue, &c.Group, &c.Error, &c.Shape, &c.Texts, &c.Partition,
		(*zeronull.UUID)(&c.PartitionID), (*zeronull.Timestamptz)(&c.Oldest), (*zeronull.Timestamptz)(&c.Newest),
	}, func() error {
		switch kind {
		case 0:
			s.Matched, s.Examined, s.Next, ids = c.N, examined, end, newest
		case 1:
			s.Errors = append(s.Errors, c)
		case 3:
			s.Shapes = append(s.Shapes, c)
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
	return s, postgres.Wrapf(err, "reading the summary of dead letters")
}
