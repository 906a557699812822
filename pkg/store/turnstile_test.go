package store

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestTurnstile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gate turnstile
		leave, err := gate.enter(t.Context(), "q")
		require.NoError(t, err)

		other, err := gate.enter(t.Context(), "another")
		require.NoError(t, err, "queues do not wait for each other")
		other()

		inside := 0
		for range 3 {
			go func() {
				leave, err := gate.enter(t.Context(), "q")
				if err == nil {
					inside++
					defer leave()
				}
			}()
		}
		gone, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := gate.enter(gone, "q")
			failed <- err
		}()
		synctest.Wait()
		require.Zero(t, inside)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		waited := false
		go func() { waited = gate.wait(t.Context(), "q") == nil }()
		require.ErrorIs(t, gate.wait(gone, "q"), context.Canceled)
		require.NoError(t, gate.wait(t.Context(), "another"))
		synctest.Wait()
		require.False(t, waited)
		leave()
		synctest.Wait()
		require.True(t, waited)
		require.Equal(t, 3, inside, "each had its turn")
		require.Empty(t, gate.inside)
	})
}
