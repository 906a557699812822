package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/batch"
)

// answering makes all flushes end at once; what is done is noted.
func answering(w *tower, answer func(ops []string) error) *[]string {
	done := &[]string{}
	w.answer = func(ops []string) ([]error, error) {
		if err := answer(ops); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		*done = append(*done, ops...)
		return nil, nil
	}
	return done
}

// crowd lets n operations meet in one batch: they come while another one is in
// flight.
func crowd(w *tower, n int) []<-chan error {
	w.t.Helper()
	w.do("first")
	outs := w.doMany("m", n)
	return outs
}

// A batch with bad operations is split until only those fail.
func TestBadOperationsFailAlone(t *testing.T) {
	for _, bad := range [][]string{{"m0"}, {"m499"}, {"m250"}, {"m3", "m4", "m77", "m401"}} {
		t.Run(strings.Join(bad, " "), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newTower(t, func(c *batch.Config) { c.MaxSize = 500 })
				outs := crowd(w, 500)
				done := answering(w, func(ops []string) error {
					for _, op := range ops {
						if slices.Contains(bad, op) {
							return fmt.Errorf("%s: %w", op, errBad)
						}
					}
					return nil
				})
				w.land(nil, nil)
				for i, out := range outs {
					name := fmt.Sprint("m", i)
					if slices.Contains(bad, name) {
						require.ErrorIs(t, outcome(t, out), errBad)
						require.NotContains(t, *done, name)
					} else {
						require.NoError(t, outcome(t, out), name)
					}
				}
				require.Len(t, *done, 500-len(bad), "each other one is done once")
				require.LessOrEqual(t, len(w.tried()), 2+len(bad)*2*9, "halving, not one by one")
				require.Equal(t, len(bad), w.failed[batch.Fail])
			})
		})
	}
}

// A passing error is not the operations' fault: the same batch goes again, a
// bounded number of times.
func TestPassingErrorIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		outs := crowd(w, 3)
		failures := 2
		done := answering(w, func([]string) error {
			if failures--; failures >= 0 {
				return errPassing
			}
			return nil
		})
		w.land(nil, nil)
		for _, out := range outs {
			require.NoError(t, <-out)
		}
		require.Equal(t, []string{"first", "m0 m1 m2", "m0 m1 m2", "m0 m1 m2"}, w.tried())
		require.Len(t, *done, 3)
	})
}

func TestPassingErrorThatStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		outs := crowd(w, 3)
		answering(w, func([]string) error { return errPassing })
		w.land(nil, nil)
		for _, out := range outs {
			require.ErrorIs(t, <-out, errPassing)
		}
		require.Len(t, w.tried(), 1+3, "the first try and two more")
		require.Equal(t, map[batch.Verdict]int{batch.Retry: 2, batch.Fail: 1}, w.failed)
	})
}

// An outcome that is not known is said to be so, and nothing is tried again.
func TestUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		outs := crowd(w, 3)
		answering(w, func([]string) error { return errUnknown })
		w.land(nil, nil)
		for _, out := range outs {
			require.ErrorIs(t, outcome(t, out), errUnknown)
		}
		require.Len(t, w.tried(), 2)
	})
}

// A panic fails the callers of its flush; the manager goes on.
func TestPanicInAFlush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		outs := crowd(w, 2)
		w.answer = func([]string) ([]error, error) { panic("boom") }
		w.land(nil, nil)
		for _, out := range outs {
			var panicked *batch.PanicError
			require.ErrorAs(t, outcome(t, out), &panicked)
			require.Equal(t, "boom", panicked.Value)
			require.Contains(t, string(panicked.Stack), "TestPanicInAFlush")
		}
		answering(w, func([]string) error { return nil })
		require.NoError(t, outcome(t, w.do("next")))
		require.NoError(t, w.Close(context.Background()))
	})
}

// Without a judge everything is split.
func TestNoJudge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		m := batch.New(batch.DefaultConfig(), func(_ context.Context, ops []string) ([]error, error) {
			if slices.Contains(ops, "bad") {
				return nil, errors.Join(errBad)
			}
			return nil, nil
		}, nil, w)
		require.ErrorIs(t, m.Do(t.Context(), "bad", nil, 1), errBad)
		require.NoError(t, m.Do(t.Context(), "good", nil, 1))
	})
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, batch.DefaultConfig().Validate())
	err := batch.Config{MaxWait: -1, Retries: -1}.Validate()
	for _, key := range []string{"batch.max_size", "batch.queue_size", "batch.max_flushes", "batch.retries", "batch.max_wait"} {
		require.ErrorContains(t, err, key)
	}
}

func TestLaneSpreads(t *testing.T) {
	t.Parallel()
	seen := map[batch.LockStripe]int{}
	for key := range int64(10000) {
		seen[batch.LockStripeOf(key)]++
	}
	require.Greater(t, len(seen), 9000)
	for lane, n := range seen {
		require.LessOrEqual(t, n, 3, "lane %d", lane)
	}
}
