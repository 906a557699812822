package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The request takes its ticket before the probe. The announcement removes the observation of the probe.
func TestAnnouncementDuringTheProbeIsNotLost(t *testing.T) {
	t.Parallel()
	for name, announce := range map[string]func(*harness, queue.Ready){
		"a commit of this instance":    func(b *harness, r queue.Ready) { b.bus.Ready([]queue.Ready{r}, events.Here) },
		"a commit of another instance": func(b *harness, r queue.Ready) { b.bus.Ready([]queue.Ready{r}, events.Peer) },
		"a resync":                     func(b *harness, _ queue.Ready) { b.bus.Resync("reconnected", events.Peer) },
	} {
		for _, req := range []*queue.PopRequest{request(time.Hour), specific(time.Hour)} {
			t.Run(fmt.Sprintf("%s, specific %t", name, req.Partition != nil), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var b *harness
					store := &fakeStore{}
					store.pop = func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
						// The snapshot of this probe is older than the commit.
						store.put(1, 1, 1, 0)
						announce(b, queue.Ready{Group: 1, Partition: 1})
						return queue.Delivery{Queue: req.Queue}, nil
					}
					b = run(t, store)
					a := delivered(t, b.begin(t.Context(), req))
					require.Zero(t, a.took)
					require.Equal(t, 2, store.count())
				})
			})
		}
	}
}

func TestAnnouncementDuringThePreflightIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(2)
		store.onFound = func([]queue.ProbeResult) {
			store.onFound = nil
			b.ready(1, 1, 1)
		}
		b.resync()
		got, _ := split(t, outs)
		require.Equal(t, 1, got)
	})
}

func TestAnnouncementDuringADirectClaimIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		out := b.wait()
		store.onClaimed = func() {
			store.onClaimed = nil
			b.ready(1, 1, 1)
		}
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Here) // of a message that was claimed already
		delivered(t, out)
		require.Equal(t, 3, store.count())
	})
}

func TestThousandWaitersAndOneMessageCauseOneProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(1000)
		require.Equal(t, 1000, b.Waiting())
		before := store.count()
		b.ready(1, 1, 1)
		got, waiting := split(t, outs)
		require.Equal(t, 1, got)
		require.Equal(t, 999, waiting)
		require.Equal(t, 999, b.Waiting())
		require.Equal(t, before+1, store.count())

		// The other requests still wait, and each further message reaches one of them.
		for i := range 20 {
			b.ready(1, int64(i+2), 1)
		}
		got, _ = split(t, outs)
		require.Equal(t, 20, got)
	})
}

func TestEachPartitionOfACommitReachesARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(50)
		var ready []queue.Ready
		for p := int64(1); p <= 30; p++ {
			store.put(1, p, 1, 0)
			ready = append(ready, queue.Ready{Group: 1, Partition: p})
		}
		b.bus.Ready(ready, events.Peer)
		got, waiting := split(t, outs)
		require.Equal(t, 30, got)
		require.Equal(t, 20, waiting)
	})
}

func TestOtherTargetsDoNotWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		anyPartition, named := b.wait(), b.begin(t.Context(), specific(time.Hour))
		pending(t, named)
		before := store.count()
		b.ready(2, 1, 1) // another group
		pending(t, anyPartition)
		require.Equal(t, before, store.count())

		b.ready(1, 7, 1) // another partition
		delivered(t, anyPartition)
		pending(t, named)
		b.ready(1, 1, 1)
		delivered(t, named)
	})
}

// No request probes before the instant at which the message is due.
func TestFutureReadyWakesAtItsInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(3)
		before := store.count()
		store.put(1, 1, 1, 7*time.Second)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1, In: 7 * time.Second}}, events.Here)
		time.Sleep(7*time.Second - time.Nanosecond)
		_, waiting := split(t, outs)
		require.Equal(t, 3, waiting)
		require.Equal(t, before, store.count(), "no probe before the instant")
		time.Sleep(time.Nanosecond)
		got, _ := split(t, outs)
		require.Equal(t, 1, got)
		require.Equal(t, before+2, store.count(), "a preflight and a claim")
	})
}

// A probe learns when the next message is due: the end of a delay, a window or a lease.
func TestNextInOfAProbeWakesAtItsInstant(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*harness) []<-chan answer{
		"the first probe": func(b *harness) []<-chan answer {
			b.store.put(1, 1, 1, time.Minute)
			return b.many(2)
		},
		"a later probe": func(b *harness) []<-chan answer {
			outs := b.many(2)
			b.store.put(1, 1, 1, time.Minute)
			b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer) // a peer sends no instant
			return outs
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				b := run(t, store)
				outs := start(b)
				synctest.Wait()
				before := store.count()
				time.Sleep(time.Minute - time.Nanosecond)
				_, waiting := split(t, outs)
				require.Equal(t, 2, waiting)
				require.Equal(t, before, store.count())
				time.Sleep(time.Nanosecond)
				got, _ := split(t, outs)
				require.Equal(t, 1, got)
				time.Sleep(leaseTime) // no ack
				got, _ = split(t, outs)
				require.Equal(t, 1, got, "the end of the lease wakes a request too")
			})
		})
	}
}

// One wake at an instant is enough for all partitions that are due then, in any order of the probes.
func TestAnInstantReachesARequestForEachPartition(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, &fakeStore{})
			outs := b.many(20)
			var ready []queue.Ready
			for p := int64(1); p <= 15; p++ {
				b.store.put(1, p, 1, time.Minute)
				ready = append(ready, queue.Ready{Group: 1, Partition: p, In: time.Minute})
			}
			b.bus.Ready(ready, events.Here)
			time.Sleep(time.Minute)
			got, waiting := split(t, outs)
			require.Equal(t, 15, got)
			require.Equal(t, 5, waiting)
		})
	}
}

// Two requests are woken for two partitions. Their round gives one of these requests a third partition, which has more messages.
// The round wakes a third request for the partition that it leaves.
func TestARoundForwardsTheWakeForWhatItLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{resolve: func(req *queue.PopRequest) (queue.Target, bool, error) {
			if req.Queue == "others" {
				return queue.Target{Group: 9}, true, nil
			}
			return queue.Target{Group: 1}, true, nil
		}}
		b := run(t, store, oneWorker)
		outs := b.many(3)
		other := request(time.Hour)
		other.Queue = "others"
		pending(t, b.begin(t.Context(), other))
		hold := make(chan struct{})
		store.onClaim = func([]queue.Assignment) error {
			store.onClaim = nil
			<-hold
			return nil
		}
		b.ready(9, 1, 1)
		synctest.Wait()
		b.ready(1, 1, 1)
		b.ready(1, 2, 1)
		store.put(1, 3, 5, 0)
		synctest.Wait()
		close(hold)
		got, _ := split(t, outs)
		require.Equal(t, 3, got)
	})
}

// The woken request finds that the group was deleted. The other requests of the group then wake too.
func TestAGoneTargetWakesAllItsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var forgotten atomic.Bool
		store := &fakeStore{onForget: func() { forgotten.Store(true) }}
		store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) {
			if forgotten.Load() {
				return queue.Target{Group: 2}, true, nil
			}
			return queue.Target{Group: 1}, true, nil
		}
		b := run(t, store)
		outs := b.many(3)
		store.change(func(f *fakeStore) { f.gone = map[int64]bool{1: true} })
		for p := int64(1); p <= 3; p++ {
			store.put(2, p, 1, 0) // announced to a group that no request knows
		}
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Here)
		got, _ := split(t, outs)
		require.Equal(t, 3, got)
	})
}

// If a woken request ends without a delivery from the partition of its wake, another request gets the wake.
func TestAWakeIsForwarded(t *testing.T) {
	t.Parallel()
	broken := &queue.Error{Code: queue.CodeUnavailable}
	invalid := &queue.Error{Code: queue.CodeInvalid}
	for name, c := range map[string]struct {
		hook  func(leave context.CancelFunc) error
		after time.Duration
		err   error
	}{
		"its client leaves":         {func(leave context.CancelFunc) error { leave(); return context.Canceled }, 0, context.Canceled},
		"the database fails":        {func(context.CancelFunc) error { return broken }, 100 * time.Millisecond, broken},
		"the request is impossible": {func(context.CancelFunc) error { return invalid }, time.Second, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				first := b.begin(ctx, request(time.Minute))
				pending(t, first)
				other := b.wait()
				b.store.onClaim = func([]queue.Assignment) error {
					b.store.onClaim = nil
					return c.hook(leave)
				}
				b.ready(1, 1, 1)
				require.ErrorIs(t, answered(t, first).err, c.err)
				if c.after > 0 {
					time.Sleep(c.after - time.Nanosecond)
					pending(t, other)
					time.Sleep(time.Nanosecond)
				}
				delivered(t, other)
			})
		})
	}
}

// A pop by tags gets the wake and the lease. Another request of the group was not woken. It gets the messages when the lease
// ends.
func TestTheLeaseOfAPopByTagsEndsForTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		store.pop = func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
			store.mu.Lock()
			defer store.mu.Unlock()
			d := store.takeLocked(req, queue.Target{Group: 1})
			d.Target = queue.Target{Group: 1}
			if req.Tags != nil && len(d.Messages) == 0 {
				d.Target, d.Watched = queue.Target{}, []int64{1}
			}
			return d, nil
		}
		b := run(t, store, func(s *settings) { s.FallbackInterval = 1000 * time.Hour })
		other := b.wait()
		tagged := request(time.Minute) // the earlier deadline
		tagged.Queue, tagged.Tags = "", &queue.Tags{Namespace: "ns"}
		out := b.begin(t.Context(), tagged)
		pending(t, out)
		b.ready(1, 1, 1)
		delivered(t, out)
		pending(t, other)
		time.Sleep(leaseTime)
		delivered(t, other)
	})
}

// A request is woken for partition 1 and takes partition 2, which has been due longer. It forwards its wake, and another request
// takes partition 1.
func TestADeliveryFromAnotherPartitionForwardsItsWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		outs := b.many(3)
		hold := make(chan struct{})
		b.store.onClaim = func([]queue.Assignment) error {
			b.store.onClaim = nil
			<-hold
			b.store.put(1, 2, 1, -time.Second) // due longer than partition 1; no announcement wakes a request for it
			return nil
		}
		b.ready(1, 1, 1)
		synctest.Wait()
		close(hold)
		got, _ := split(t, outs)
		require.Equal(t, 2, got)
	})
}
