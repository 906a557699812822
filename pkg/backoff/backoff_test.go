package backoff_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/pkg/backoff"
)

func TestDelayGrowsAfterTheThresholdUpToTheCap(t *testing.T) {
	t.Parallel()
	policy := backoff.Policy{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Threshold: 2, Multiplier: 2}
	want := []time.Duration{100, 100, 200, 400, 800, 1600, 2000, 2000}
	for i, ms := range want {
		if got := policy.Delay(i+1, 0); got != ms*time.Millisecond {
			t.Errorf("after %d empty looks: %s, want %s", i+1, got, ms*time.Millisecond)
		}
	}
	// A waiter that looked in vain for years still gets the cap, not an overflow.
	if got := policy.Delay(1<<30, 0); got != policy.Max {
		t.Errorf("after 2^30 empty looks: %s, want %s", got, policy.Max)
	}
}

func TestJitterOnlyShortens(t *testing.T) {
	t.Parallel()
	policy := backoff.Policy{Initial: time.Second, Max: time.Second, Threshold: 1, Multiplier: 2}
	for _, random := range []float64{0, 0.25, 0.5, 0.999} {
		got := policy.Delay(5, random)
		if got > time.Second || got < 900*time.Millisecond {
			t.Errorf("random %g: %s, want between 900ms and 1s", random, got)
		}
	}
	if policy.Delay(5, 0.999) >= policy.Delay(5, 0) {
		t.Error("randomness has no effect")
	}
}
