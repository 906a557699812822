package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlCountBegin = sql.Query("engine/deadletter/count_begin")
	sqlCountPage  = sql.Query("engine/deadletter/count_page")
)

// countPage is how many dead letters one statement of a count examines.
const countPage = 20_000

// AsOf says which dead letters a count has counted, so that an action takes no others. The zero AsOf stands for a count at the
// beginning of the action.
type AsOf struct {
	// N is how many there were.
	N int64 `json:"n"`
	// Snapshot is the snapshot of the count, as pg_snapshot. At is its instant, and Epoch the epoch of the database.
	Snapshot string    `json:"s"`
	At       time.Time `json:"t"`
	Epoch    int64     `json:"e"`
	// Selection identifies the filter.
	Selection string `json:"f"`
}

// String returns the text that ParseAsOf reads. It is empty for the zero AsOf.
func (a AsOf) String() string {
	if a.Snapshot == "" {
		return ""
	}
	text, _ := json.Marshal(a) // has only texts and numbers
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseAsOf reads the text of an AsOf that belongs to a filter. Errors: CodeInvalid.
func ParseAsOf(text string, f *Filter) (a AsOf, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	switch {
	case err != nil || a.Snapshot == "" || a.N < 0 || !snapshotText(a.Snapshot):
		return AsOf{}, queue.Invalidf("asOf is not what a count has returned: count again")
	case a.Selection != f.selection():
		return AsOf{}, queue.Invalidf("asOf belongs to a count of other dead letters: count these again")
	}
	return a, nil
}

// snapshotText reports whether a text can be a pg_snapshot: Postgres refuses any other.
func snapshotText(text string) bool {
	colons := 0
	for _, c := range text {
		switch {
		case c == ':':
			colons++
		case c != ',' && (c < '0' || c > '9'):
			return false
		}
	}
	return colons == 2 && len(text) < 100_000
}

// selection identifies what the filter selects. Allowed does not count, because it belongs to the caller.
func (f *Filter) selection() string {
	text, _ := json.Marshal([]any{f.Queue, f.Group, f.Partition, f.TransactionID, f.Error, f.Shape, f.From.UTC(), f.To.UTC()}) // texts and instants
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// Count counts the dead letters that a filter selects. f.Queue is set. It returns what bounds an action to them. It reads pages
// of 20,000, each with a statement of its own, and calls report after each one, unless report is nil. It ends when ctx ends, or
// with the error of report. Errors: CodeUnavailable.
func (l *Letters) Count(ctx context.Context, f Filter, report func(n int64) error) (AsOf, error) {
	at, err := l.countAll(ctx, &f, AsOf{}, report)
	return at, postgres.Wrapf(err, "counting dead letters")
}

// countAll counts the dead letters of a filter that belong to at, or that exist now if at is zero.
func (l *Letters) countAll(ctx context.Context, f *Filter, at AsOf, report func(n int64) error) (AsOf, error) {
	counted := AsOf{Selection: f.selection()}
	var groups []int64
	if err := l.pool.ScanRow(ctx, []any{&counted.At, &counted.Snapshot, &counted.Epoch, &groups}, sqlCountBegin, *f.Queue, f.Group); err != nil {
		return AsOf{}, err
	}
	if at.Snapshot != "" {
		if err := l.pool.CheckEpoch(ctx, at.Epoch); err != nil {
			return AsOf{}, err
		}
		counted.Snapshot, counted.At, counted.Epoch = at.Snapshot, at.At, at.Epoch
	}
	filter := f.args(ctx, l.pool) // queue, group, partition, from, to, transaction id, error
	for _, group := range groups {
		var after ListKey
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return AsOf{}, err
			}
			var n, examined int64
			into := []any{&n, &examined, (*zeronull.Timestamptz)(&after.FailedAt), (*zeronull.Int8)(&after.ID)}
			if err := l.pool.ScanRow(ctx, into, sqlCountPage, group, filter[2], filter[3], filter[4], filter[5], filter[6],
				zeronull.Timestamptz(after.FailedAt), zeronull.Int8(after.ID), l.countSize, counted.Snapshot, counted.At); err != nil {
				return AsOf{}, err
			}
			counted.N += n
			more = examined == l.countSize
			if report != nil {
				if err := report(counted.N); err != nil {
					return AsOf{}, err
				}
			}
		}
	}
	if at.Snapshot != "" {
		counted.N = min(counted.N, at.N)
	}
	return counted, nil
}
