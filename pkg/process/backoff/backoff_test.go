package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

func TestDelayGrowsAfterTheThresholdUpToMax(t *testing.T) {
	t.Parallel()
	policy := backoff.Policy{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Threshold: 2, Multiplier: 2}
	want := []time.Duration{100, 100, 200, 400, 800, 1600, 2000, 2000}
	for i, ms := range want {
		require.Equal(t, ms*time.Millisecond, policy.Delay(i+1, 0), "after %d attempts", i+1)
	}
	require.Equal(t, policy.Max, policy.Delay(1<<30, 0), "many attempts do not overflow the delay")
}

func TestPaceAllowsABurstAndThenOneRunEachInterval(t *testing.T) {
	t.Parallel()
	began := time.Now()
	p := backoff.Pace{Interval: time.Second, Burst: 3}
	next := func(at time.Duration) time.Duration { return p.Next(began.Add(at)).Sub(began) }
	require.Equal(t, []time.Duration{0, 0, 0, time.Second, 2 * time.Second}, []time.Duration{next(0), next(0), next(0), next(0), next(0)})
	require.Equal(t, 3*time.Second, next(2*time.Second))
	require.Equal(t, 5*time.Second, next(5*time.Second), "one run in each interval")
	p.Refund()
	require.Equal(t, 5*time.Second, next(5*time.Second))
	require.Equal(t, []time.Duration{time.Hour, time.Hour, time.Hour, time.Hour + time.Second},
		[]time.Duration{next(time.Hour), next(time.Hour), next(time.Hour), next(time.Hour)}, "a long pause allows one burst and no more")
}

func TestJitterOnlyShortensTheDelay(t *testing.T) {
	t.Parallel()
	for jitter, least := range map[float64]time.Duration{0: 900 * time.Millisecond, 0.5: 500 * time.Millisecond} {
		policy := backoff.Policy{Initial: time.Second, Max: time.Second, Threshold: 1, Multiplier: 2, Jitter: jitter}
		for _, random := range []float64{0, 0.25, 0.5, 0.999} {
			got := policy.Delay(5, random)
			require.LessOrEqual(t, got, time.Second, "random %g", random)
			require.GreaterOrEqual(t, got, least, "random %g", random)
		}
		require.Less(t, policy.Delay(5, 0.999), policy.Delay(5, 0), "randomness changes the delay")
	}
}

func TestSleepBlocksForTheDuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		require.NoError(t, backoff.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(started))
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, backoff.Sleep(ctx, time.Minute), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(started))
		require.ErrorIs(t, backoff.Sleep(ctx, time.Minute), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(started), "a context that has ended does not block")
	})
}

func TestSleepOfNoDurationDoesNotBlock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, backoff.Sleep(ctx, 0))
	require.NoError(t, backoff.Sleep(ctx, -time.Second))
	cancel()
	require.ErrorIs(t, backoff.Sleep(ctx, 0), context.Canceled)
}
