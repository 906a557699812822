package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/history"
)

var now = time.Date(2026, 5, 16, 8, 41, 27, 0, time.UTC)

func TestBucketsGrowWithTheTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ago, span, want time.Duration
	}{
		{time.Hour, time.Hour, time.Minute},
		{6 * time.Hour, 6 * time.Hour, 5 * time.Minute},
		{24 * time.Hour, 24 * time.Hour, 15 * time.Minute},
		{6 * time.Hour, time.Hour, time.Minute},
		{7 * time.Hour, time.Hour, 15 * time.Minute}, // the minutes are added up
		{27 * time.Hour, time.Hour, time.Hour},
		{9 * 24 * time.Hour, time.Hour, 6 * time.Hour},
		{7 * 24 * time.Hour, 7 * 24 * time.Hour, time.Hour},
		{8 * 24 * time.Hour, 8 * 24 * time.Hour, 6 * time.Hour},
	} {
		require.Equal(t, c.want, bucketSize(now, now.Add(-c.ago), c.span), "%s of %s ago", c.span, c.ago)
	}
}

// Buckets are whole from the one that has from. None is in the future.
func TestBucketsAreWhole(t *testing.T) {
	t.Parallel()
	at := func(q Query) (begins []string) {
		q.buckets(func(at time.Time) { begins = append(begins, BucketTime(at)) })
		return begins
	}
	q := Query{Since: now.Add(-2 * time.Minute), Until: now.Add(time.Hour)}
	q.SetRange(now, time.Minute)
	require.Equal(t, []string{"2026-05-16T08:41:00Z", "2026-05-16T08:40:00Z", "2026-05-16T08:39:00Z"}, at(q))
	q.Until = now.Truncate(time.Minute)
	q.SetRange(now, time.Minute)
	require.Equal(t, []string{"2026-05-16T08:40:00Z", "2026-05-16T08:39:00Z"}, at(q))
	q.Since, q.Until = now.Add(time.Hour), now.Add(2*time.Hour)
	q.SetRange(now, time.Minute)
	require.Empty(t, at(q))
}

// Between two rows of a process its memory is that of the first, and for an hour after the last one. Its CPU is not.
func TestMemoryIsFilledForward(t *testing.T) {
	t.Parallel()
	from := now.Truncate(time.Minute).Add(-3 * time.Hour)
	row := func(minute int, rss float64) history.InstanceBucket {
		return history.InstanceBucket{At: from.Add(time.Duration(minute) * time.Minute), CPUUser: history.Figure{9, 10, 11, 10}, RSSBytes: history.Figure{rss, rss, rss, rss}, DBErrors: 1}
	}
	q := Query{Range: history.Range{From: from, To: now, Bucket: time.Minute}}
	found := totalsOf(&q, []process{{buckets: []history.InstanceBucket{row(1, 100), row(90, 200)}}, {buckets: []history.InstanceBucket{row(2, 7)}}})
	at := func(minute int) totals { return *found[from.Add(time.Duration(minute)*time.Minute).Unix()] }
	require.Zero(t, at(0))
	require.Equal(t, totals{dbErrors: 1, cpuUser: 10, rss: 100}, at(1))
	require.Equal(t, totals{dbErrors: 1, cpuUser: 10, rss: 107}, at(2))
	require.Equal(t, totals{rss: 107}, at(62))
	require.Equal(t, totals{rss: 100}, at(63))
	require.Equal(t, totals{dbErrors: 1, cpuUser: 10, rss: 200}, at(90))
	require.Equal(t, totals{rss: 200}, at(150))
	require.Zero(t, at(151))
}
