package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Any role may announce a group that has nothing. 500 spurious wakes happen at once, and 500 a second
// after that. A message of another instance arrives at most 2 ms later meanwhile, one of this instance
// at once.
func TestSpuriousNotificationsHaveAPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		out := b.wait()
		forge := func(n int) {
			for range n {
				b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.SQL)
				synctest.Wait()
				time.Sleep(time.Millisecond)
			}
		}
		forge(2001) // for 2 s, and not until an instant at which a wake is due
		require.InDelta(t, 1+500+1000, store.count(), 2)

		store.put(1, 1, 1, 0)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer)
		pending(t, out)
		time.Sleep(2 * time.Millisecond)
		delivered(t, out)

		out = b.wait()
		forge(100)
		b.ready(1, 2, 1)
		delivered(t, out)
	})
}

// A load of notifications that bring something is not slowed down, however many there are.
func TestUsefulNotificationsWakeAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		for i := range 600 {
			out := b.wait()
			store.put(1, int64(i), 1, 0)
			b.bus.Ready([]queue.Ready{{Group: 2, Partition: 1}}, events.Peer) // no request waits for it
			b.bus.Ready([]queue.Ready{{Group: 1, Partition: int64(i)}}, events.Peer)
			require.Zero(t, delivered(t, out).took)
		}
	})
}
