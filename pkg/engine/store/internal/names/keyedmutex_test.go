package names

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestOneCallerHoldsAKeyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mutex keyedMutex
		unlock, err := mutex.Lock(t.Context(), "q")
		require.NoError(t, err)

		other, err := mutex.Lock(t.Context(), "another")
		require.NoError(t, err, "a caller waits only for holders of its own key")
		other()

		holders := 0
		for range 3 {
			go func() {
				unlock, err := mutex.Lock(t.Context(), "q")
				if err == nil {
					holders++
					defer unlock()
				}
			}()
		}
		gone, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := mutex.Lock(gone, "q")
			failed <- err
		}()
		synctest.Wait()
		require.Zero(t, holders)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		waited := false
		go func() { waited = mutex.Wait(t.Context(), "q") == nil }()
		require.ErrorIs(t, mutex.Wait(gone, "q"), context.Canceled)
		require.NoError(t, mutex.Wait(t.Context(), "another"))
		synctest.Wait()
		require.False(t, waited)
		unlock()
		synctest.Wait()
		require.True(t, waited)
		require.Equal(t, 3, holders, "each caller held the key once")
		require.Empty(t, mutex.locked)
	})
}
