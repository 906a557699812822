package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// collect sends the time of each delivery, since now, to one channel.
func collect(outs []<-chan answer) <-chan time.Duration {
	times, began := make(chan time.Duration, len(outs)), time.Now()
	for _, out := range outs {
		go func() {
			if a := <-out; len(a.Messages) > 0 {
				times <- time.Since(began)
			}
		}()
	}
	return times
}

// room ends the lease of a partition of group 1 and announces the room in the limits.
func (b *harness) room(partition int64) {
	b.store.end(partition)
	b.bus.Ready([]queue.Ready{{Group: 1, Partition: queue.Room}}, events.Here)
}

// Each token must wake one of many requests, at the instant of the token. The statements must be in proportion to the messages,
// not to the requests or to the ready partitions.
func TestEachTokenWakesOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, every = 50, 100 * time.Millisecond
		store := &fakeStore{every: every}
		b := run(t, store)
		times := collect(b.many(many))
		for p := range many {
			b.ready(1, int64(p+1), 1)
		}
		before := store.count()
		for i := range many {
			require.Equal(t, time.Duration(i)*every, <-times)
		}
		require.LessOrEqual(t, store.count()-before, 3*many)
	})
}

// The end of a lease must wake one of many requests, of which some name a partition. While the limits refuse claims, new messages
// must cause no statements.
func TestTheEndOfALeaseWakesOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{most: 1}
		b := run(t, store)
		outs := b.many(20)
		named := b.begin(t.Context(), specific(time.Hour))
		pending(t, named)
		b.ready(1, 1, 1)
		delivered(t, named) // an intent that names the partition is first
		for p := range int64(30) {
			b.ready(1, p+2, 1)
		}
		got, waiting := split(t, outs)
		require.Zero(t, got)
		before := store.count()
		for p := range int64(1000) {
			b.ready(1, 100+p, 1)
		}
		pending(t, outs[0])
		require.Equal(t, before, store.count())
		times := collect(outs)
		for i := range waiting {
			taken := store.leasedPartition()
			time.Sleep(time.Second)
			b.room(taken)
			require.Equal(t, time.Duration(i+1)*time.Second, <-times)
			synctest.Wait()
			require.Empty(t, times)
		}
		require.LessOrEqual(t, store.count()-before, 3*waiting)
	})
}

// A lease that ends after a claim was refused and before the dispatcher has its answer must not be forgotten.
func TestRoomDuringARefusedClaimIsNotLost(t *testing.T) {
	t.Parallel()
	for name, arrivesFirst := range map[string]bool{"the first probe": false, "a round": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				b := run(t, store)
				refused := 0
				refuse := func(d *queue.Delivery) {
					if refused++; refused == 1 {
						*d = queue.Delivery{Target: queue.Target{Group: 1}, Limited: true, LimitedIn: time.Hour}
						b.bus.Ready([]queue.Ready{{Group: 1, Partition: queue.Room}}, events.Peer)
					}
				}
				var out <-chan answer
				if arrivesFirst {
					out = b.wait()
					store.change(func(f *fakeStore) { f.refuse = refuse })
					b.ready(1, 1, 1)
				} else {
					store.refuse = refuse
					store.put(1, 1, 1, 0)
					out = b.begin(t.Context(), request(time.Hour))
				}
				require.Zero(t, delivered(t, out).took)
				require.Equal(t, 2, refused)
			})
		})
	}
}

// Requests that the limits refuse must cause no statements while they wait, and their deadline must hold.
func TestRefusedRequestsAreIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{most: 1}
		store.put(1, 9, 1, 0)
		b := run(t, store)
		delivered(t, b.begin(t.Context(), request(time.Second)))
		store.put(1, 1, 1, 0)
		var outs []<-chan answer
		for range 1000 {
			outs = append(outs, b.begin(t.Context(), request(time.Minute)))
			pending(t, outs[len(outs)-1])
		}
		require.Equal(t, 2, store.count(), "one delivery and one refused claim")
		time.Sleep(time.Minute)
		for _, out := range outs {
			require.Empty(t, answered(t, out).Messages)
		}
		require.Equal(t, 2, store.count())
	})
}
