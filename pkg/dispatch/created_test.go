package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// missingTarget returns a store in which no queue exists until exists is true.
func missingTarget() (*fakeStore, *atomic.Bool) {
	exists := &atomic.Bool{}
	store := &fakeStore{}
	store.resolve = func(req *queue.PopRequest) (queue.Target, bool, error) {
		if !exists.Load() {
			return queue.Target{}, false, nil
		}
		return targetOf(req), true, nil
	}
	return store, exists
}

// The queue is created after the store has answered that it does not exist, and before the request takes its ticket. In the case
// "resolve 1" the request has just arrived. In the case "resolve 3" a wake made the request resolve the name again.
func TestCreationDuringTheProbeIsNotLost(t *testing.T) {
	t.Parallel()
	for _, before := range []int{1, 3} {
		t.Run(fmt.Sprintf("resolve %d", before), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b *harness
				store, exists := missingTarget()
				answer, asked := store.resolve, 0
				store.resolve = func(req *queue.PopRequest) (queue.Target, bool, error) {
					target, ok, err := answer(req)
					if asked++; asked == before {
						exists.Store(true)
						b.bus.Created("orders", "", events.Here)
						b.ready(1, 1, 1)
					}
					return target, ok, err
				}
				b = run(t, store)
				out := b.begin(context.WithoutCancel(t.Context()), request(time.Hour))
				synctest.Wait()
				b.bus.Created("", "", events.Peer)
				require.Zero(t, delivered(t, out).took)
			})
		})
	}
}

// The request takes a ticket for the new target before it probes, because the first message may be
// committed right after the probe.
func TestMessageAfterACreationDuringTheProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *harness
		store, exists := missingTarget()
		answer := store.resolve
		store.resolve = func(req *queue.PopRequest) (queue.Target, bool, error) {
			target, ok, err := answer(req)
			if exists.CompareAndSwap(false, true) {
				b.bus.Created("orders", "", events.Here)
			}
			return target, ok, err
		}
		b = run(t, store)
		out := b.wait()
		b.ready(1, 1, 1)
		require.Zero(t, delivered(t, out).took)
	})
}

func tagged(wait time.Duration) *queue.PopRequest {
	return &queue.PopRequest{Tags: &queue.Tags{Namespace: "ns"}, Group: "g", Batch: 1, Partitions: 1, Wait: wait}
}

func TestPopByTagsWakesForItsGroupsAndForCreations(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(*harness){
		"a group it watches":    func(b *harness) { b.bus.Ready([]queue.Ready{{Group: 2, Partition: 9}}, events.Here) },
		"a new queue":           func(b *harness) { b.bus.Created("new", "", events.Here) },
		"a new queue on a peer": func(b *harness) { b.bus.Created("", "", events.Peer) },
		"the next due instant":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var full atomic.Bool
				store := &fakeStore{}
				store.pop = func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
					if full.Load() {
						return queue.Delivery{Messages: make([]queue.Message, 1)}, nil
					}
					return queue.Delivery{Watched: []int64{1, 2}, HasNext: true, NextIn: time.Minute}, nil
				}
				b := run(t, store)
				out := b.begin(context.WithoutCancel(t.Context()), tagged(time.Hour))
				pending(t, out)
				require.Equal(t, 2, store.count(), "the request probes again once it knows its groups")
				b.bus.Ready([]queue.Ready{{Group: 3, Partition: 1}}, events.Here)
				pending(t, out)
				require.Equal(t, 2, store.count(), "another group does not wake the request")
				full.Store(true)
				if wake == nil {
					time.Sleep(time.Minute)
				} else {
					wake(b)
				}
				delivered(t, out)
			})
		})
	}
}

// A request that finds new groups can make the other requests with the same tags wait for these groups too. The first probe of a
// request does not share the groups with them, because thousands of requests may arrive with the same groups. A later probe
// shares new groups. If a creation woke the request, it also shares the groups of its first probe, which the other requests may
// not know.
func TestPopByTagsSharesOnlyNewGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var groups atomic.Pointer[[]int64]
		know := func(list ...int64) { groups.Store(&list) }
		store := &fakeStore{}
		store.pop = func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
			return queue.Delivery{Watched: *groups.Load()}, nil
		}
		b := run(t, store)
		waiting := func(group int64) int { return b.Readiness.Waiting(queue.Target{Group: group}) }
		know()
		pending(t, b.begin(context.WithoutCancel(t.Context()), tagged(time.Hour)))
		know(1)
		second := b.begin(context.WithoutCancel(t.Context()), tagged(time.Minute)) // its deadline is the earliest, so it wakes first
		pending(t, second)
		require.Equal(t, 1, waiting(1), "the first probe shares no groups")

		know(1, 2)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Here)
		pending(t, second)
		require.Equal(t, []int{1, 2}, []int{waiting(1), waiting(2)}, "a later probe shares the new groups")

		before := store.count()
		b.bus.Created("new", "", events.Here)
		pending(t, second)
		require.Equal(t, before+1, store.count(), "one request probes for all")
		require.Equal(t, []int{2, 2}, []int{waiting(1), waiting(2)}, "after the creation")
	})
}

// A queue is deleted, and another queue with the same tags is created. A request that waits for the tags then waits for the new
// group, although the number of its groups is the same.
func TestPopByTagsFollowsItsGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group atomic.Int64
		var full atomic.Bool
		store := &fakeStore{}
		store.pop = func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
			if full.Load() {
				return queue.Delivery{Messages: make([]queue.Message, 1)}, nil
			}
			return queue.Delivery{Watched: []int64{group.Load()}}, nil
		}
		b := run(t, store)
		group.Store(1)
		out := b.begin(context.WithoutCancel(t.Context()), tagged(time.Hour))
		pending(t, out)
		group.Store(2)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Here)
		pending(t, out)
		full.Store(true)
		b.bus.Ready([]queue.Ready{{Group: 2, Partition: 1}}, events.Here)
		delivered(t, out)
	})
}

// The target may be deleted after the request has resolved it and before the first probe. Then the request waits for the creation
// of the name, or for the new target.
func TestDeletionBeforeTheFirstProbeIsNoticed(t *testing.T) {
	t.Parallel()
	for name, created := range map[string]bool{"deleted": false, "created again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b *harness
				var deleted, exists atomic.Bool
				store := &fakeStore{}
				store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) {
					if !deleted.Load() {
						return queue.Target{Group: 1}, true, nil
					}
					return queue.Target{Group: 5}, exists.Load(), nil
				}
				store.onPop = func(*queue.PopRequest) error {
					deleted.Store(true)
					exists.Store(created)
					return nil
				}
				b = run(t, store)
				out := b.wait()
				pending(t, out)
				if !created {
					exists.Store(true)
					b.bus.Created("orders", "", events.Here)
					pending(t, out)
				}
				b.ready(5, 1, 1)
				require.Zero(t, delivered(t, out).took)
			})
		})
	}
}

// The target is deleted and created again during every probe.
func TestDeadlineAndStopEndRepeatedDeletions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop bool
		took time.Duration
	}{"deadline": {false, 5 * time.Second}, "stop": {true, 2 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{gone: map[int64]bool{}}
				var latest atomic.Int64
				store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) {
					if latest.Load() > 100 {
						return queue.Target{}, false, errors.New("the deletions do not end")
					}
					return queue.Target{Group: latest.Load() + 1}, true, nil
				}
				store.onPop = func(*queue.PopRequest) error {
					time.Sleep(time.Second)
					latest.Add(1)
					return nil
				}
				store.onClaim = func(assignments []queue.Assignment) error {
					store.gone[assignments[0].Target.Group] = true
					return store.onPop(nil)
				}
				b := run(t, store)
				out := b.begin(t.Context(), request(5*time.Second))
				if c.stop {
					time.Sleep(1500 * time.Millisecond)
					b.Stop()
				}
				a := <-out
				require.NoError(t, a.err)
				require.Empty(t, a.Messages)
				require.Equal(t, c.took, a.took)
			})
		})
	}
}

// After the queue was deleted, and perhaps created again, a waiting request resolves its names again.
func TestGroupThatIsGoneIsResolvedAgain(t *testing.T) {
	t.Parallel()
	for name, waiting := range map[string]int{"alone": 1, "in a round": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var forgotten atomic.Bool
				store := &fakeStore{}
				store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) {
					if !forgotten.Load() {
						return queue.Target{Group: 1}, true, nil // from the cache
					}
					return queue.Target{Group: 5}, true, nil
				}
				store.onForget = func() { forgotten.Store(true) }
				b := run(t, store)
				outs := b.many(waiting)
				store.mu.Lock()
				store.gone = map[int64]bool{1: true}
				store.mu.Unlock()
				b.bus.Resync("a queue was deleted", events.Peer)
				_, still := split(t, outs)
				require.Equal(t, waiting, still)
				b.ready(5, 1, 1)
				got, _ := split(t, outs)
				require.Equal(t, 1, got)
			})
		})
	}
}

// If a later probe of a pop by tags finds a group missing, the group was deleted. Messages stored before the deletion are then
// not new to the group.
func TestLaterPopByTagsSetsRefreshSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refreshed []time.Time
		store := &fakeStore{}
		store.pop = func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
			refreshed = append(refreshed, req.RefreshSince)
			return queue.Delivery{Watched: []int64{1}}, nil
		}
		b := run(t, store)
		out := b.begin(context.WithoutCancel(t.Context()), tagged(time.Hour))
		pending(t, out)
		time.Sleep(time.Minute / 2)
		b.bus.Resync("a consumer group was deleted", events.Peer)
		pending(t, out)
		require.Greater(t, len(refreshed), 2)
		require.Zero(t, refreshed[0], "the first probe registers the group")
		require.Equal(t, time.Now(), refreshed[len(refreshed)-1])
	})
}
