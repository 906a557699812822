package events_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
)

// Forged notifications cause at most ten reads a second. A read that fails is repeated after a second without a further
// notification.
func TestRereadIsBoundedAndRepeatsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changed, began := events.NewSignal(), time.Now()
		var reads, failures []time.Duration
		var fails atomic.Bool
		done := make(chan error)
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		go func() {
			done <- changed.Reread(ctx, func(context.Context) error {
				reads = append(reads, time.Since(began))
				if fails.Load() {
					return errors.New("no database")
				}
				return nil
			}, func(error) { failures = append(failures, time.Since(began)) })
		}()
		synctest.Wait()
		require.Empty(t, reads, "nothing is read without a notification")
		for range 10 {
			changed.Set()
			changed.Set()
			synctest.Wait()
		}
		pass(150 * time.Millisecond)
		require.Equal(t, []time.Duration{0, 100 * time.Millisecond}, reads)
		pass(time.Second)
		reads, began = nil, time.Now()
		fails.Store(true)
		changed.Set()
		pass(500 * time.Millisecond)
		fails.Store(false)
		pass(time.Minute)
		require.Equal(t, []time.Duration{0, time.Second}, reads)
		require.Equal(t, []time.Duration{0}, failures)
		cancel()
		require.NoError(t, <-done)
	})
}
