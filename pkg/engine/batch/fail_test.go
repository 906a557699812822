package batch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
)

// answering ends every flush at once and records the operations of successful flushes.
func answering(h *harness, answer func(ops []string) error) *[]string {
	done := &[]string{}
	h.answer = func(ops []string) ([]error, error) {
		if err := answer(ops); err != nil {
			return nil, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		*done = append(*done, ops...)
		return nil, nil
	}
	return done
}

// shareBatch begins n operations that share one batch: they arrive while another
// batch is in flight.
func shareBatch(h *harness, n int) []<-chan error {
	h.t.Helper()
	h.do("first")
	outs := h.doMany("m", n)
	return outs
}

// A batch with bad operations is split until only the bad operations fail.
func TestBadOperationsFailAlone(t *testing.T) {
	for _, bad := range [][]string{{"m0"}, {"m499"}, {"m250"}, {"m3", "m4", "m77", "m401"}} {
		t.Run(strings.Join(bad, " "), func(t *testing.T) {
			inBubble(t, func(c *batch.Config) { c.MaxSize = 500 }, func(t *testing.T, h *harness) {
				outs := shareBatch(h, 500)
				done := answering(h, func(ops []string) error {
					for _, op := range ops {
						if slices.Contains(bad, op) {
							return fmt.Errorf("%s: %w", op, errBad)
						}
					}
					return nil
				})
				h.land(nil, nil)
				for i, out := range outs {
					name := fmt.Sprint("m", i)
					if slices.Contains(bad, name) {
						require.ErrorIs(t, outcome(t, out), errBad)
						require.NotContains(t, *done, name)
					} else {
						require.NoError(t, outcome(t, out), name)
					}
				}
				require.Len(t, *done, 500-len(bad), "each good operation is done once")
				require.LessOrEqual(t, len(h.tried()), 2+len(bad)*2*9, "the manager halves the batch, and does not try operations one by one")
				require.Equal(t, len(bad), h.failed[batch.Fail])
			})
		})
	}
}

// After a transient error the manager sends the same batch again, at most Config.Retries times. After an error with
// an unknown outcome it does not send the batch again.
func TestErrorsOfABatchAreRetried(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		failures int // of the batch, in a row
		tries    int
		failed   map[batch.Verdict]int
	}{
		"transient, twice":  {errTransient, 2, 3, map[batch.Verdict]int{batch.Retry: 2}},
		"transient, always": {errTransient, 9, 3, map[batch.Verdict]int{batch.Retry: 2, batch.Fail: 1}},
		"unknown outcome":   {errUnknown, 9, 1, map[batch.Verdict]int{batch.Fail: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, h *harness) {
				outs := shareBatch(h, 3)
				left := c.failures
				done := answering(h, func([]string) error {
					if left--; left >= 0 {
						return c.err
					}
					return nil
				})
				h.land(nil, nil)
				for _, out := range outs {
					if err := <-out; c.failures < c.tries {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, c.err)
					}
				}
				require.Equal(t, append([]string{"first"}, slices.Repeat([]string{"m0 m1 m2"}, c.tries)...), h.tried())
				require.Equal(t, c.failed, h.failed)
				require.Equal(t, c.failures < c.tries, len(*done) == 3)
			})
		})
	}
}

// A panic fails the callers of its flush. The manager continues.
func TestPanicInAFlush(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, h *harness) {
		outs := shareBatch(h, 2)
		h.answer = func([]string) ([]error, error) { panic("boom") }
		h.land(nil, nil)
		for _, out := range outs {
			var panicked *batch.PanicError
			require.ErrorAs(t, outcome(t, out), &panicked)
			require.Equal(t, "boom", panicked.Value)
			require.Contains(t, string(panicked.Stack), "TestPanicInAFlush")
		}
		answering(h, func([]string) error { return nil })
		require.NoError(t, outcome(t, h.do("next")))
		require.NoError(t, h.Close(context.Background()))
	})
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, batch.DefaultConfig().Validate())
	err := batch.Config{MaxWait: -1, Retries: -1}.Validate()
	for _, key := range []string{"batch.max_size", "batch.queue_size", "batch.max_flushes", "batch.retries", "batch.max_wait"} {
		require.ErrorContains(t, err, key)
	}
}

func TestStripesSpreadKeys(t *testing.T) {
	seen := map[batch.LockStripe]int{}
	for key := range int64(10000) {
		seen[batch.LockStripeOf(key)]++
	}
	require.Greater(t, len(seen), 9000)
	shared := 0
	for key := range int64(10000) {
		if seen[batch.LockStripeOf(1_000_000+7919*key)] > 0 {
			shared++
		}
	}
	require.Less(t, shared, 1000, "the number of 10,000 other keys that share a stripe with one of 10,000 keys")
	for stripe, n := range seen {
		require.LessOrEqual(t, n, 3, "stripe %d", stripe)
	}
}
