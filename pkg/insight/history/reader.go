package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlSeries    = sql.Query("insight/history/series")
	sqlLatency   = sql.Query("insight/history/latency")
	sqlParked    = sql.Query("insight/history/parked")
	sqlInstances = sql.Query("insight/history/instances")
)

const (
	// maxQueues is how many queues a list by queue has.
	maxQueues = 100
	// recently is how long ago a span ended for which the other instances are asked what they have not written.
	recently = 5 * time.Minute
	// maxParkedRows bounds the rows of waiting requests that one answer reads.
	maxParkedRows = 200_000
)

// Range is a part of the history. From and To are between two buckets, or To is now.
type Range struct {
	From, To time.Time
	Bucket   time.Duration
}

// Filter selects rows. A nil field selects all.
type Filter struct {
	// Allowed are patterns of names of queues, as in belfry.matches.
	Allowed                       []string
	Queue, Group, Namespace, Task *string
}

// Bucket are the counts of a part of a Range, of one queue or of all.
type Bucket struct {
	At    time.Time
	Queue string
	Counts
	// Removals is in how many rows a sweep deleted messages.
	Removals int64
}

// OthersFunc returns what Writer.Unwritten returns at the other instances. It blocks briefly.
type OthersFunc func(ctx context.Context) [][]byte

// Reader reads the history, and the counts that are not in it yet. It is safe for concurrent use.
type Reader struct {
	pool   *postgres.Pool
	own    *Writer
	others OthersFunc
}

// NewReader returns a Reader on pool. own is the Writer of this instance; nil: it has none. others may be nil.
func NewReader(pool *postgres.Pool, own *Writer, others OthersFunc) *Reader {
	return &Reader{pool: pool, own: own, others: others}
}

// unwritten returns the rows of all instances that a span may need and that the database may not have. The statements
// leave out the rows that it has.
func (r *Reader) unwritten(ctx context.Context, span Range) *unwritten {
	all, now := &unwritten{Rows: []row{}}, time.Now()
	add := func(more *unwritten) {
		all.Rows, all.Instances = append(all.Rows, more.Rows...), append(all.Instances, more.Instances...)
	}
	if r.own != nil {
		own := r.own.unwrittenRows(maxRows)
		add(&own)
	}
	if r.others != nil && span.To.After(now.Add(-recently)) {
		for _, text := range r.others(ctx) {
			if more, err := decode(text, now); err == nil {
				add(&more)
			}
		}
	}
	return all
}

// marshal returns rows in JSON: without rows an empty array, because a statement refuses null.
func marshal[T any](rows []T) (string, error) {
	text, err := json.Marshal(append([]T{}, rows...))
	if err != nil {
		return "", fmt.Errorf("encoding the counts that are not written: %w", err)
	}
	return string(text), nil
}

// Sums returns the sums of all queues, the newest bucket first. A bucket without rows is missing. Errors:
// CodeUnavailable.
func (r *Reader) Sums(ctx context.Context, span Range, f Filter) ([]Bucket, error) {
	return r.series(ctx, span, f, false)
}

// Queues returns the sums of each queue, the newest bucket first, of the busiest queues. Errors:
// CodeUnavailable.
func (r *Reader) Queues(ctx context.Context, span Range, f Filter) ([]Bucket, error) {
	return r.series(ctx, span, f, true)
}

func (r *Reader) series(ctx context.Context, span Range, f Filter, byQueue bool) ([]Bucket, error) {
	rows, err := marshal(r.unwritten(ctx, span).Rows)
	if err != nil {
		return nil, err
	}
	found, err := postgres.Collect(ctx, r.pool, sqlSeries, pgx.RowToStructByName[Bucket], span.From, span.To, int64(span.Bucket.Seconds()),
		postgres.LikePatterns(f.Allowed), f.Queue, f.Group, f.Namespace, f.Task, byQueue, int64(maxQueues), rows)
	return found, postgres.Wrapf(err, "reading the history")
}

// Percentiles are durations from commit to delivery.
type Percentiles struct{ P50, P95, P99 time.Duration }

// At names a queue and the begin of a bucket.
type At struct {
	Unix  int64
	Queue string
}

// Percentiles returns the percentiles of each queue. each: of each bucket. Otherwise the buckets of a Range
// are one, with the instant 0. Errors: CodeUnavailable.
func (r *Reader) Percentiles(ctx context.Context, span Range, f Filter, each bool) (map[At]Percentiles, error) {
	var seconds int64
	if each {
		seconds = int64(span.Bucket.Seconds())
	}
	type row struct {
		At            time.Time
		Queue         string
		Bucket, Count int64
	}
	unwritten, err := marshal(r.unwritten(ctx, span).Rows)
	if err != nil {
		return nil, err
	}
	rows, err := postgres.Collect(ctx, r.pool, sqlLatency, pgx.RowToStructByName[row], span.From, span.To, seconds,
		postgres.LikePatterns(f.Allowed), f.Queue, f.Group, unwritten)
	if err != nil {
		return nil, postgres.Wrapf(err, "reading the latencies of the history")
	}
	histograms := map[At][]Bucketed{}
	for _, bucket := range rows {
		at := At{Queue: bucket.Queue}
		if each {
			at.Unix = bucket.At.Unix()
		}
		histograms[at] = append(histograms[at], Bucketed{int(bucket.Bucket), bucket.Count})
	}
	found := make(map[At]Percentiles, len(histograms))
	for at, histogram := range histograms {
		found[at] = Percentiles{Percentile(histogram, .5), Percentile(histogram, .95), Percentile(histogram, .99)}
	}
	return found, nil
}

// Figure is a figure of a process in a bucket: least, mean, greatest and last.
type Figure [4]float64

// figure returns the Figure that an array of a row holds.
func figure(values []float64) (f Figure) {
	copy(f[:], values)
	return f
}

// InstanceBucket are the figures of a process in a bucket.
type InstanceBucket struct {
	At                                                         time.Time
	Hostname                                                   string
	Port, PID                                                  int64
	Samples, DBErrors, Popped                                  int64
	LastAt                                                     time.Time
	CPUUser, CPUSystem, RSSBytes, PoolSize, PoolIdle, PoolUsed Figure
}

// Instances returns the figures of processes, the oldest bucket first. hostname and pid select some; nil: all.
// Errors: CodeUnavailable.
func (r *Reader) Instances(ctx context.Context, span Range, hostname, pid *string) ([]InstanceBucket, error) {
	instances, err := marshal(r.unwritten(ctx, span).instances())
	if err != nil {
		return nil, err
	}
	found, err := postgres.Collect(ctx, r.pool, sqlInstances, func(row pgx.CollectableRow) (b InstanceBucket, err error) {
		var figures [6][]float64
		err = row.Scan(&b.At, &b.Hostname, &b.Port, &b.PID, &b.Samples, &b.DBErrors, &b.LastAt, &b.Popped,
			&figures[0], &figures[1], &figures[2], &figures[3], &figures[4], &figures[5])
		for i, into := range []*Figure{&b.CPUUser, &b.CPUSystem, &b.RSSBytes, &b.PoolSize, &b.PoolIdle, &b.PoolUsed} {
			*into = figure(figures[i])
		}
		return b, err
	}, span.From, span.To, int64(span.Bucket.Seconds()), hostname, pid, instances)
	return found, postgres.Wrapf(err, "reading the history of the instances")
}
