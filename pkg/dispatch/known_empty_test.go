package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A client that polls a target that is known to be empty costs no query.
func TestKnownEmptyWaitsWithoutAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		for range 20 {
			a := <-b.begin(t.Context(), request(time.Second))
			require.NoError(t, a.err)
			require.Empty(t, a.Messages)
			require.Equal(t, 950*time.Millisecond, a.took)
		}
		require.Equal(t, 1, store.count())
	})
}

func TestKnownEmptyIsKeptByTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		<-b.begin(t.Context(), request(time.Second))
		<-b.begin(t.Context(), specific(time.Second))
		require.Equal(t, 2, store.count())
	})
}

func TestEventsThatEndAKnownEmptyEntry(t *testing.T) {
	t.Parallel()
	ready := []queue.Ready{{Group: 1, Partition: 1}}
	for name, c := range map[string]struct {
		drop func(*harness)
		more int
	}{
		"no event":                   {func(*harness) {}, 0},
		"ready here":                 {func(b *harness) { b.bus.Ready(ready, events.Here) }, 1},
		"ready on a peer":            {func(b *harness) { b.bus.Ready(ready, events.Peer) }, 1},
		"ready later":                {func(b *harness) { b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1, In: time.Hour}}, events.Here) }, 0},
		"ready in another group":     {func(b *harness) { b.bus.Ready([]queue.Ready{{Group: 2, Partition: 1}}, events.Here) }, 0},
		"ready in another partition": {func(b *harness) { b.bus.Ready([]queue.Ready{{Group: 1, Partition: 2}}, events.Here) }, 0},
		"a resync":                   {func(b *harness) { b.bus.Resync("reconnected", events.Peer) }, 1},
		"not proven":                 {func(b *harness) { b.unproven.Store(true) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				b := run(t, store)
				const wait = 50 * time.Millisecond // below the first fallback
				<-b.begin(t.Context(), specific(wait))
				c.drop(b)
				<-b.begin(t.Context(), specific(wait))
				require.Equal(t, 1+c.more, store.count())
			})
		})
	}
}

// The fallback interval also limits how long a known-empty entry holds. So an unannounced message is found even if the timeout of
// each client is shorter than the interval.
func TestKnownEmptyEndsAtTheFallbackInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		<-b.begin(t.Context(), request(30*time.Second))
		store.put(1, 1, 1, 0)
		limit := time.Now().Add(dispatch.DefaultConfig().FallbackInterval)
		for {
			a := <-b.begin(t.Context(), request(30*time.Second))
			require.NoError(t, a.err)
			if len(a.Messages) > 0 {
				break
			}
			require.True(t, time.Now().Before(limit), "no probe before the fallback")
		}
		require.Equal(t, 2, store.count())
	})
}

func TestKnownEmptyEndsAtTheDueInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		store.put(1, 1, 1, 10*time.Second)
		<-b.begin(t.Context(), request(time.Second))
		<-b.begin(t.Context(), request(time.Second))
		require.Equal(t, 1, store.count())
		// A request that made no probe also wakes at the instant.
		out := b.wait()
		require.Equal(t, 1, store.count())
		time.Sleep(10*time.Second - 1900*time.Millisecond - time.Nanosecond)
		pending(t, out)
		time.Sleep(time.Nanosecond)
		delivered(t, out)

		store.put(1, 2, 1, 10*time.Second)
		b.bus.Resync("test", events.Peer)
		<-b.begin(t.Context(), request(time.Second))
		time.Sleep(time.Minute)
		a := delivered(t, b.begin(t.Context(), request(time.Second)))
		require.Zero(t, a.took, "a request after the instant probes")
	})
}

func TestPopWithoutWaitAlwaysProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		<-b.begin(t.Context(), request(time.Second))
		for range 5 {
			a := answered(t, b.begin(t.Context(), request(0)))
			require.NoError(t, a.err)
			require.Zero(t, a.took)
		}
		store.put(1, 1, 1, 0) // without an announcement
		delivered(t, b.begin(t.Context(), request(-time.Second)))
		require.Equal(t, 7, store.count())
	})
}

func TestFailedProbeLeavesNoKnownEmptyEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := &queue.Error{Code: queue.CodeUnavailable}
		store := &fakeStore{pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) { return queue.Delivery{}, broken }}
		b := run(t, store)
		require.ErrorIs(t, answered(t, b.begin(t.Context(), request(time.Second))).err, broken)
		store.pop = nil
		<-b.begin(t.Context(), request(time.Second))
		require.Equal(t, 2, store.count())
	})
}

// A request that waited without a first probe makes no first probe when it wakes. A message wakes only one of a thousand such
// requests.
func TestRequestsWithoutAFirstProbeMakeOneClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		<-b.begin(t.Context(), request(time.Second))
		outs := b.many(1000)
		require.Equal(t, 1, store.count())
		b.ready(1, 1, 1)
		got, waiting := split(t, outs)
		require.Equal(t, 1, got)
		require.Equal(t, 999, waiting)
		require.Equal(t, 2, store.count())
	})
}
