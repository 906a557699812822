package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Every role of the database can announce a group that has no messages. The first 500 spurious wakes happen at once, and further
// spurious wakes happen at a rate of 500 a second. During this load, a message of another instance wakes a request after at most
// 2 ms. A message of this instance wakes a request at once.
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
		forge(2001) // for 2 s and 1 ms, so that the loop does not end at the instant of a wake
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

// Notifications with messages wake requests at once, however many notifications arrive.
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
