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
	sqlBacklog   = sql.Query("insight/history/backlog")
	sqlWritten   = sql.Query("insight/history/written")
	sqlInstances = sql.Query("insight/history/instances")
)

const (
	// maxQueues bounds the queues that Reader.Queues returns.
	maxQueues = 100
	// recently bounds the age of a span: if its end is older, the Reader does not ask the other instances for
	// unwritten rows.
	recently = 5 * time.Minute
	// maxParkedRows bounds the rows of waiting requests that one answer reads.
	maxParkedRows = 200_000
)

// Range is a part of the history. From and To are boundaries of buckets, or To is now.
type Range struct {
	From, To time.Time
	Bucket   time.Duration
}

// Filter selects rows. A nil field selects all.
type Filter struct {
	// Allowed are patterns of queue names, as in belfry.matches.
	Allowed                       []string
	Queue, Group, Namespace, Task *string
	// Queues are names of queues. With Queue, they are ignored.
	Queues []string
}

// queues returns the names of the selected queues; nil: all.
func (f *Filter) queues() []string {
	if f.Queue != nil {
		return []string{*f.Queue}
	}
	return f.Queues
}

// Bucket has the counts of one bucket of a Range, for one queue or for all queues.
type Bucket struct {
	At    time.Time
	Queue string
	Counts
	// Removals is the number of history rows that count messages deleted by a sweep.
	Removals int64
}

// Sum returns the counts of all buckets together.
func Sum(buckets []Bucket) (all Counts) {
	for i := range buckets {
		all.Add(&buckets[i].Counts)
	}
	return all
}

// OthersFunc returns the results of Writer.Unwritten of the other instances. It blocks briefly.
type OthersFunc func(ctx context.Context) [][]byte

// Reader reads the history, including the counts that are not written yet. It is safe for concurrent use.
type Reader struct {
	pool   *postgres.Pool
	own    *Writer
	others OthersFunc
}

// NewReader returns a Reader that uses pool. own is the Writer of this instance, or nil if the instance does not write
// its counts. others may be nil.
func NewReader(pool *postgres.Pool, own *Writer, others OthersFunc) *Reader {
	return &Reader{pool: pool, own: own, others: others}
}

// unwritten returns rows of all instances that may be missing in the database. Some of them may already be in the
// database, and the statements ignore these.
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

// marshal returns rows in JSON. For no rows it returns an empty array, because the statements refuse null.
func marshal[T any](rows []T) (string, error) {
	text, err := json.Marshal(append([]T{}, rows...))
	if err != nil {
		return "", fmt.Errorf("encoding the unwritten counts: %w", err)
	}
	return string(text), nil
}

// Sums returns the sums over all queues, the newest bucket first. It omits buckets without rows. Errors:
// CodeUnavailable.
func (r *Reader) Sums(ctx context.Context, span Range, f Filter) ([]Bucket, error) {
	return r.series(ctx, span, f, false)
}

// Queues returns the sums of each queue, the newest bucket first. It returns at most the maxQueues busiest queues.
// Errors: CodeUnavailable.
func (r *Reader) Queues(ctx context.Context, span Range, f Filter) ([]Bucket, error) {
	return r.series(ctx, span, f, true)
}

func (r *Reader) series(ctx context.Context, span Range, f Filter, byQueue bool) ([]Bucket, error) {
	rows, err := marshal(r.unwritten(ctx, span).Rows)
	if err != nil {
		return nil, err
	}
	found, err := postgres.Collect(ctx, r.pool, sqlSeries, pgx.RowToStructByName[Bucket], span.From, span.To, int64(span.Bucket.Seconds()),
		postgres.LikePatterns(f.Allowed), f.queues(), f.Group, f.Namespace, f.Task, byQueue, int64(maxQueues), rows)
	return found, postgres.Wrapf(err, "reading the history")
}

// Percentiles are durations from commit to delivery.
type Percentiles struct{ P50, P95, P99 time.Duration }

// At names a queue and the start of a bucket.
type At struct {
	Unix  int64
	Queue string
}

// Percentiles returns the percentiles of each queue. If each is true, it returns them for each bucket. Otherwise it
// returns them for the whole span, with At.Unix 0. Errors: CodeUnavailable.
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
		postgres.LikePatterns(f.Allowed), f.queues(), f.Group, unwritten)
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

// Figure has the values of one figure of a process in a bucket: minimum, mean, maximum and last.
type Figure [4]float64

// figure converts an array of a row.
func figure(values []float64) (f Figure) {
	copy(f[:], values)
	return f
}

// InstanceBucket has the figures of a process in a bucket.
type InstanceBucket struct {
	At                                                         time.Time
	Hostname                                                   string
	Port, PID                                                  int64
	Samples, DBErrors, Popped                                  int64
	LastAt                                                     time.Time
	CPUUser, CPUSystem, RSSBytes, PoolSize, PoolIdle, PoolUsed Figure
}

// Instances returns the figures of processes, the oldest bucket first. hostname and pid select processes; nil selects
// all. Errors: CodeUnavailable.
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
