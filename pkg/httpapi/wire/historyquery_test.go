package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
		{7 * time.Hour, time.Hour, 15 * time.Minute}, // a sweep has merged rows of this age
		{27 * time.Hour, time.Hour, time.Hour},
		{9 * 24 * time.Hour, time.Hour, 6 * time.Hour},
		{7 * 24 * time.Hour, 7 * 24 * time.Hour, time.Hour},
		{8 * 24 * time.Hour, 8 * 24 * time.Hour, 6 * time.Hour},
	} {
		require.Equal(t, c.want, bucketSize(now, now.Add(-c.ago), c.span), "%s of %s ago", c.span, c.ago)
	}
}

// The range begins at the start of the bucket that contains from. It does not end in the future.
func TestBucketsAreWhole(t *testing.T) {
	t.Parallel()
	at := func(q HistoryQuery) (begins []string) {
		q.Buckets(func(at time.Time) { begins = append(begins, BucketTime(at).Format(time.RFC3339Nano)) })
		return begins
	}
	q := HistoryQuery{Since: now.Add(-2 * time.Minute), Until: now.Add(time.Hour)}
	q.SetRange(now, time.Minute)
	require.Equal(t, []string{"2026-05-16T08:41:00Z", "2026-05-16T08:40:00Z", "2026-05-16T08:39:00Z"}, at(q))
	q.Until = now.Truncate(time.Minute)
	q.SetRange(now, time.Minute)
	require.Equal(t, []string{"2026-05-16T08:40:00Z", "2026-05-16T08:39:00Z"}, at(q))
	q.Since, q.Until = now.Add(time.Hour), now.Add(2*time.Hour)
	q.SetRange(now, time.Minute)
	require.Empty(t, at(q))
}
