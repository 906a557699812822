package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// During pop maintenance no pop probes. A waiting pop is held until its time is up, its client leaves or the server stops. When
// maintenance ends, the pop probes at once.
func TestPopsAreHeldDuringMaintenance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		ended := make(chan struct{})
		b.paused.Store(&ended)
		b.ready(1, 1, 1)

		a := answered(t, b.begin(t.Context(), request(0)))
		require.NoError(t, a.err)
		require.Empty(t, a.Messages)

		short, long := b.begin(t.Context(), request(time.Second)), b.begin(t.Context(), request(time.Hour))
		ctx, leave := context.WithCancel(t.Context())
		left := b.begin(ctx, request(time.Hour))
		synctest.Wait()
		require.Equal(t, 3, b.Waiting())
		leave()
		require.ErrorIs(t, answered(t, left).err, context.Canceled)
		time.Sleep(time.Second)
		a = answered(t, short)
		require.NoError(t, a.err)
		require.Empty(t, a.Messages)
		pending(t, long)
		b.paused.Store(nil)
		close(ended)
		require.Zero(t, delivered(t, long).took-time.Second)

		ended = make(chan struct{})
		b.paused.Store(&ended)
		stopped := b.begin(t.Context(), request(time.Hour))
		synctest.Wait()
		b.Stop()
		require.NoError(t, answered(t, stopped).err)
	})
}

// Callers have shares during pop maintenance too. A displaced pop is answered without messages.
func TestSharesApplyDuringMaintenance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(10))
		ended := make(chan struct{})
		b.paused.Store(&ended)
		b.ready(1, 1, 1)
		first := b.crowd(10, "a", "g")
		second := b.crowd(10, "b", "g")
		require.Equal(t, []int{5, 5}, []int{first.waiting(), second.waiting()})
		require.Equal(t, []int{5, 5}, []int{first.displaced, second.refused})
		require.Equal(t, 10, b.Waiting())
		b.paused.Store(nil)
		close(ended)
		synctest.Wait()
		require.Equal(t, 9, b.Waiting(), "one request took the message, and nine wait")
		third := b.crowd(3, "c", "g")
		require.Equal(t, 3, third.waiting())
		require.Equal(t, 10, b.Waiting())
	})
}
