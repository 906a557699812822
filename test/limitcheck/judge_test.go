package limitcheck_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/limitcheck"
)

var begun = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns an instant n milliseconds after begun.
func at(n int) time.Time { return begun.Add(time.Duration(n) * time.Millisecond) }

// history returns leases of one message at a rate of 100 a second, of which at most two are live.
func history() []limitcheck.Lease {
	var leases []limitcheck.Lease
	for i := range 100 {
		leases = append(leases, limitcheck.Lease{
			Partition: int64(i), Messages: 1, Began: at(10*i - 1), From: at(10 * i), Until: at(10*i + 20), Live: 2,
		})
	}
	return leases
}

// Each rule reports the history that breaks it, and no other rule does.
func TestABreachBreaksOneRule(t *testing.T) {
	t.Parallel()
	bucket := limitcheck.Bucket{Messages: 100, Per: time.Second, Burst: 3}
	for name, test := range map[string]struct {
		falsify           func(leases []limitcheck.Lease)
		concurrency, rate int
	}{
		"nothing":                    {falsify: func([]limitcheck.Lease) {}},
		"a third lease overlaps":     {func(l []limitcheck.Lease) { l[50].Until = at(600) }, 8, 0},
		"a claim sees a third one":   {func(l []limitcheck.Lease) { l[50].Live = 3 }, 1, 0},
		"more messages than allowed": {func(l []limitcheck.Lease) { l[50].Messages = 6 }, 0, 1},
		"the same, but it may have been earlier": {func(l []limitcheck.Lease) {
			for i := range 20 {
				l[i].Messages = 0
			}
			l[50].Messages, l[50].Began = 6, at(0)
		}, 0, 0},
		"a rate that is too high for long": {func(l []limitcheck.Lease) {
			for i := range l {
				l[i].Messages = 1 + i%10/9 // 10 % more
			}
		}, 0, 1},
	} {
		leases := history()
		test.falsify(leases)
		require.Len(t, limitcheck.Concurrency(leases, limitcheck.Change{Concurrency: 2}), test.concurrency, name)
		require.Len(t, limitcheck.Rate(leases, bucket), test.rate, name)
	}
}

// While a limit changes, the greater value is allowed.
func TestAChangeAllowsBothValues(t *testing.T) {
	t.Parallel()
	changes := []limitcheck.Change{{Concurrency: 5}, {Begin: at(100), End: at(200), Concurrency: 2}}
	lease := limitcheck.Lease{Began: at(199), From: at(201), Until: at(300), Live: 5}
	require.Empty(t, limitcheck.Concurrency([]limitcheck.Lease{lease}, changes...))
	lease.Began = at(201)
	require.Len(t, limitcheck.Concurrency([]limitcheck.Lease{lease}, changes...), 1)
	lease.Live = 2
	require.Empty(t, limitcheck.Concurrency([]limitcheck.Lease{lease}, changes...))
	raised := []limitcheck.Change{{Concurrency: 2}, {Begin: at(100), End: at(200), Concurrency: 5}}
	lease = limitcheck.Lease{Began: at(90), From: at(99), Until: at(300), Live: 3}
	require.Len(t, limitcheck.Concurrency([]limitcheck.Lease{lease}, raised...), 1)
	lease.From = at(100)
	require.Empty(t, limitcheck.Concurrency([]limitcheck.Lease{lease}, raised...))
}

func TestWindowsCountMessages(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int{25, 25, 25, 25}, limitcheck.Windows(history(), begun, at(1000), 250*time.Millisecond))
	require.Equal(t, []int{25}, limitcheck.Windows(history(), at(500), at(999), 250*time.Millisecond))
}
