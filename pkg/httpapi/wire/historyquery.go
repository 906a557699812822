package wire

import (
	"math"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/sweep"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// DefaultSpan is the duration that an answer covers if the request has no from.
	DefaultSpan = time.Hour
	// MaxBuckets is the maximum number of buckets of an answer.
	MaxBuckets = 2000
)

// bucketSizes has the size of a bucket by the duration that an answer covers. For a longer duration, the size is longestBucket.
var bucketSizes = []struct{ span, bucket time.Duration }{
	{time.Hour, time.Minute},
	{6 * time.Hour, 5 * time.Minute},
	{24 * time.Hour, 15 * time.Minute},
	{7 * 24 * time.Hour, time.Hour},
}

const longestBucket = 6 * time.Hour

// HistoryQuery has the parameters of a request for the history.
type HistoryQuery struct {
	history.Range
	history.Filter
	// Since and Until are from and to of the request. Range has them rounded to buckets.
	Since, Until time.Time
	// Limited means that the token of the sender has grants.
	Limited bool
}

// ReadHistoryQuery reads the parameters from and to and the filters. Without from, the answer covers the duration otherwise.
func ReadHistoryQuery(p *Params, otherwise time.Duration) (HistoryQuery, error) {
	now := time.Now().UTC()
	q := HistoryQuery{Since: p.Instant("from"), Until: p.Instant("to"), Limited: identity.GrantsOf(p.Ctx()) != nil}
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
		p.Check(queue.Invalidf("from is %s and to is %s: from must be before to", FormatMillis(q.Since), FormatMillis(q.Until)))
	}
	if q.Queue != nil {
		p.Check(MayRead(p.Ctx(), *q.Queue))
	}
	q.SetRange(now, bucketSize(now, q.Since, q.Until.Sub(q.Since)))
	if q.To.Sub(q.From)/q.Bucket > MaxBuckets {
		p.Check(queue.Invalidf("from is %s and to is %s: the answer would have more than %d buckets of %s; send a later from or an earlier to",
			FormatMillis(q.Since), FormatMillis(q.Until), MaxBuckets, q.Bucket))
	}
	return q, p.Err
}

// SetRange sets the range of whole buckets. The first bucket contains Since, and the range does not end after now.
func (q *HistoryQuery) SetRange(now time.Time, bucket time.Duration) {
	q.Range = history.Range{From: q.Since.UTC().Truncate(bucket), To: q.Until.UTC(), Bucket: bucket}
	if q.To.After(now) {
		q.To = now
	}
	if q.To.Before(q.From) { // the whole range is in the future
		q.To = q.From
	}
}

// bucketSize returns the size of a bucket for an answer that begins at start and covers span. Sweeps merge old rows of the
// history, so the bucket is at least as long as the period of a row of that age.
func bucketSize(now, start time.Time, span time.Duration) time.Duration {
	bucket := longestBucket
	for _, size := range bucketSizes {
		if span <= size.span {
			bucket = size.bucket
			break
		}
	}
	for _, stage := range sweep.HistoryStages {
		if start.Before(now.Add(-stage.Age)) {
			bucket = max(bucket, time.Duration(stage.To)*time.Minute)
		}
	}
	return bucket
}

// Span returns the first members of most answers.
func (q *HistoryQuery) Span() api.HistorySpan {
	return api.HistorySpan{TimeRange: api.TimeRange{From: q.Since, To: q.Until}, BucketMinutes: int64(q.Bucket / time.Minute)}
}

// Buckets calls add with the start of each bucket, the newest bucket first.
func (q *HistoryQuery) Buckets(add func(at time.Time)) {
	if !q.To.After(q.From) {
		return
	}
	for at := q.To.Add(-1).Truncate(q.Bucket); !at.Before(q.From); at = at.Add(-q.Bucket) {
		add(at)
	}
}

// PerSecond returns the mean rate of n events in the bucket that starts at an instant. A bucket that has not ended counts
// until now, and at least as one second.
func (q *HistoryQuery) PerSecond(at time.Time, n int64) float64 {
	covered := q.Bucket
	if rest := q.To.Sub(at); rest < covered {
		covered = max(rest, time.Second)
	}
	return Rounded(float64(n) / covered.Seconds())
}

// Rounded returns x with two decimals.
func Rounded(x float64) float64 { return math.Round(100*x) / 100 }

// BucketTime converts the start of a bucket.
func BucketTime(at time.Time) api.BucketTime { return api.BucketTime{Time: at.UTC()} }

// AverageLag returns the average lag in milliseconds.
func AverageLag(c *history.Counts) int64 { return millis(c.LagSum / max(1, c.LagCount)) }

// MaxLag returns the largest lag in milliseconds.
func MaxLag(c *history.Counts) int64 { return millis(c.LagMax) }

// millis turns microseconds into whole milliseconds.
func millis(micros int64) int64 { return int64(math.Round(float64(micros) / 1000)) }

// Percentiles converts percentiles.
func Percentiles(found history.Percentiles) api.Percentiles {
	ms := func(d time.Duration) float64 { return Rounded(float64(d.Microseconds()) / 1000) }
	return api.Percentiles{P50Ms: ms(found.P50), P95Ms: ms(found.P95), P99Ms: ms(found.P99)}
}

// Acknowledged converts the counts of acknowledgments.
func Acknowledged(c *history.Counts) api.Acknowledged {
	return api.Acknowledged{AckSuccess: c.AckSuccess, AckFailed: c.AckFailed, DLQCount: c.DeadLetters, AckRetried: c.AckRetried, AckRefused: c.AckRefused}
}
