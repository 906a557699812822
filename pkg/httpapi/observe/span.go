package observe

import (
	"math"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/sweep"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// DefaultSpan is the time that an answer covers without from.
	DefaultSpan = time.Hour
	// MaxBuckets bounds the buckets of an answer.
	MaxBuckets = 2000
)

// bucketSizes are the sizes of buckets by the time that an answer covers. longestBucket is for more.
var bucketSizes = []struct{ span, bucket time.Duration }{
	{time.Hour, time.Minute},
	{6 * time.Hour, 5 * time.Minute},
	{24 * time.Hour, 15 * time.Minute},
	{7 * 24 * time.Hour, time.Hour},
}

const longestBucket = 6 * time.Hour

// Query is what most routes read of a request.
type Query struct {
	history.Range
	history.Filter
	// Since and Until are as the sender wants them.
	Since, Until time.Time
	// limited: the token of the sender has grants.
	limited bool
}

// ReadQuery reads from, to and the filters.
func ReadQuery(p *wire.Params, otherwise time.Duration) (Query, error) {
	now := time.Now().UTC()
	q := Query{Since: p.Instant("from"), Until: p.Instant("to"), limited: identity.GrantsOf(p.Ctx()) != nil}
	q.Filter = history.Filter{
		Allowed: identity.GrantsOf(p.Ctx()).Readable(), Queue: p.Name("queue"), Group: p.Name("consumerGroup"),
		Namespace: p.Name("namespace"), Task: p.Name("task"),
	}
	if q.Until.IsZero() {
		q.Until = now
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-otherwise)
	}
	if !q.Since.Before(q.Until) {
		p.Check(queue.Invalidf("from is %s and to is %s: from must be before to", wire.FormatMillis(q.Since), wire.FormatMillis(q.Until)))
	}
	if q.Queue != nil {
		p.Check(wire.MayRead(p.Ctx(), *q.Queue))
	}
	q.SetRange(now, bucketSize(now, q.Since, q.Until.Sub(q.Since)))
	if q.To.Sub(q.From)/q.Bucket > MaxBuckets {
		p.Check(queue.Invalidf("from is %s and to is %s: that is more than %d buckets of %s; send a later from or an earlier to",
			wire.FormatMillis(q.Since), wire.FormatMillis(q.Until), MaxBuckets, q.Bucket))
	}
	return q, p.Err
}

// SetRange sets the buckets: whole ones from the one that has from.
func (q *Query) SetRange(now time.Time, bucket time.Duration) {
	q.Range = history.Range{From: q.Since.UTC().Truncate(bucket), To: q.Until.UTC(), Bucket: bucket}
	if q.To.After(now) {
		q.To = now
	}
	if q.To.Before(q.From) { // all of it is in the future
		q.To = q.From
	}
}

// bucketSize returns the size by the time that an answer covers. It is at least what rows of that age stand for.
func bucketSize(now, from time.Time, span time.Duration) time.Duration {
	bucket := longestBucket
	for _, size := range bucketSizes {
		if span <= size.span {
			bucket = size.bucket
			break
		}
	}
	for _, stage := range sweep.HistoryStages {
		if from.Before(now.Add(-stage.Age)) {
			bucket = max(bucket, time.Duration(stage.To)*time.Minute)
		}
	}
	return bucket
}

// Head are the members that most answers begin with.
func (q *Query) Head() wire.Fields {
	return wire.Fields{"timeRange", wire.Fields{"from", q.Since, "to", q.Until}, "bucketMinutes", int(q.Bucket / time.Minute)}
}

// buckets calls add with the begin of each bucket, the newest first.
func (q *Query) buckets(add func(at time.Time)) {
	if !q.To.After(q.From) {
		return
	}
	for at := q.To.Add(-1).Truncate(q.Bucket); !at.Before(q.From); at = at.Add(-q.Bucket) {
		add(at)
	}
}

// perSecond returns the mean of a count over a bucket.
func (q *Query) perSecond(n int64) float64 { return rounded(float64(n) / q.Bucket.Seconds()) }

func rounded(x float64) float64 { return math.Round(100*x) / 100 }

// BucketTime formats the begin of a bucket: in whole seconds.
func BucketTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// millis turns microseconds into whole milliseconds.
func millis(micros int64) int64 { return int64(math.Round(float64(micros) / 1000)) }

// averageLag and maxLag are milliseconds.
func averageLag(c *history.Counts) int64 { return millis(c.LagSum / max(1, c.LagCount)) }
func maxLag(c *history.Counts) int64     { return millis(c.LagMax) }

// percentiles are the members that Queen MQ does not have.
func percentiles(found history.Percentiles) wire.Fields {
	ms := func(d time.Duration) float64 { return rounded(float64(d.Microseconds()) / 1000) }
	return wire.Fields{"p50Ms", ms(found.P50), "p95Ms", ms(found.P95), "p99Ms", ms(found.P99)}
}

// empty is [] in JSON.
var empty = []any{}
