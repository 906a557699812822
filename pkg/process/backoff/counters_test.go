package backoff_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

func TestCallersOfAKeyShareItsNextAttempt(t *testing.T) {
	t.Parallel()
	policy := backoff.Policy{Initial: time.Second, Max: time.Minute, Multiplier: 2}
	now := time.Now()
	counters := backoff.NewCounters[string]()
	next := counters.Next("a", now, policy, 0)
	require.Equal(t, now.Add(2*time.Second), next)
	require.Equal(t, next, counters.Next("a", now.Add(time.Second), policy, 0.9), "the next attempt is computed already")
	firsts := 0
	for range 3 {
		counters.Fail("a", next, next, func() { firsts++ })
	}
	require.Equal(t, 1, firsts)
	require.Equal(t, map[string]int{"a": 1}, counters.Failed(), "three callers made one attempt")
	require.Equal(t, next.Add(4*time.Second), counters.Next("a", next, policy, 0))

	counters.Next("b", now, policy, 0)
	counters.Forget(next)
	require.Equal(t, map[string]int{"a": 1}, counters.Failed())
	require.Equal(t, now.Add(2*time.Second), counters.Next("b", now, policy, 0))
	counters.Reset("a")
	require.Empty(t, counters.Failed())
}
