package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

var now = time.Date(2026, 5, 16, 8, 41, 27, 0, time.UTC)

// A bucket without a row of a process has the memory of the previous row, and its CPU is 0. After the last row, the memory counts
// for one hour.
func TestMemoryOfThePreviousRowIsUsed(t *testing.T) {
	t.Parallel()
	from := now.Truncate(time.Minute).Add(-3 * time.Hour)
	row := func(minute int, rss float64) history.InstanceBucket {
		return history.InstanceBucket{At: from.Add(time.Duration(minute) * time.Minute), CPUUser: history.Figure{9, 10, 11, 10}, RSSBytes: history.Figure{rss, rss, rss, rss}, DBErrors: 1}
	}
	q := wire.HistoryQuery{Range: history.Range{From: from, To: now, Bucket: time.Minute}}
	found := totalsOf(&q, []Process{{Buckets: []history.InstanceBucket{row(1, 100), row(90, 200)}}, {Buckets: []history.InstanceBucket{row(2, 7)}}})
	at := func(minute int) Totals { return *found[from.Add(time.Duration(minute)*time.Minute).Unix()] }
	require.Zero(t, at(0))
	require.Equal(t, Totals{DBErrors: 1, CPUUser: 10, RSS: 100}, at(1))
	require.Equal(t, Totals{DBErrors: 1, CPUUser: 10, RSS: 107}, at(2))
	require.Equal(t, Totals{RSS: 107}, at(62))
	require.Equal(t, Totals{RSS: 100}, at(63))
	require.Equal(t, Totals{DBErrors: 1, CPUUser: 10, RSS: 200}, at(90))
	require.Equal(t, Totals{RSS: 200}, at(150))
	require.Zero(t, at(151))
}
