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

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// unborn is a store in which nothing exists until exists is stored.
func unborn() (*fakeStore, *atomic.Bool) {
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

// Whoever waits for a name that does not exist is woken when it is born, here or
// on another instance, and then by what becomes ready in it.
func TestBirthWakesWhoWaitsForTheName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		req  *queue.PopRequest
		born func(*bench)
	}{
		"the queue":                    {request(time.Hour), func(b *bench) { b.bus.Created("orders", "", events.Here) }},
		"the queue, elsewhere":         {request(time.Hour), func(b *bench) { b.bus.Created("", "", events.Peer) }},
		"the partition":                {specific(time.Hour), func(b *bench) { b.bus.Created("orders", "1", events.Here) }},
		"the partition with its queue": {specific(time.Hour), func(b *bench) { b.bus.Created("orders", "", events.Here) }},
		"the partition, elsewhere":     {specific(time.Hour), func(b *bench) { b.bus.Created("", "", events.Peer) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, exists := unborn()
				b := run(t, store)
				out := b.begin(context.WithoutCancel(t.Context()), c.req)
				pending(t, out)
				b.bus.Created("another", "", events.Here)
				b.bus.Created("orders", "2", events.Here)
				pending(t, out)
				exists.Store(true)
				c.born(b)
				pending(t, out)
				b.ready(1, 1, 1)
				require.Zero(t, delivered(t, out).took)
			})
		})
	}
}

// A birth between the answer "it does not exist" and the ticket is not lost, of
// an arrival nor of a request that was woken by something else.
func TestBirthDuringTheLookIsNotLost(t *testing.T) {
	t.Parallel()
	for _, before := range []int{1, 3} {
		t.Run(fmt.Sprintf("resolve %d", before), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b *bench
				store, exists := unborn()
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
				b.bus.Created("another", "", events.Here)
				require.Zero(t, delivered(t, out).took)
			})
		})
	}
}

// What is born between the answer "it does not exist" and the ticket is armed for
// before it is looked at: its first message may come right after that look.
func TestMessageAfterABirthDuringTheLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		store, exists := unborn()
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

// The birth comes before the first message is committed; what was pushed in
// between is found at once.
func TestBirthWithAMessageIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, exists := unborn()
		b := run(t, store)
		out := b.wait()
		exists.Store(true)
		store.put(1, 1, 1, 0)
		b.bus.Created("orders", "", events.Here)
		delivered(t, out)
	})
}

func tagged(wait time.Duration) *queue.PopRequest {
	return &queue.PopRequest{Tags: &queue.Tags{Namespace: "ns"}, Group: "g", Batch: 1, Partitions: 1, Wait: wait}
}

// A pop by tags watches every group it looked at, and any birth.
func TestPopByTagsWakesForItsGroupsAndForBirths(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(*bench){
		"a group it watches":   func(b *bench) { b.bus.Ready([]queue.Ready{{Group: 2, Partition: 9}}, events.Here) },
		"a queue is born":      func(b *bench) { b.bus.Created("new", "", events.Here) },
		"one is, elsewhere":    func(b *bench) { b.bus.Created("", "", events.Peer) },
		"the next due instant": nil,
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
				require.Equal(t, 2, store.calls().pops, "it looks again once it knows what to watch")
				b.bus.Ready([]queue.Ready{{Group: 3, Partition: 1}}, events.Here)
				pending(t, out)
				require.Equal(t, 2, store.calls().pops, "another group is not its business")
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

// A look of its own may find that what it was armed for has been deleted, and
// perhaps made anew: then it arms for that.
func TestDeletionBeforeTheLookIsNoticed(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"deleted": false, "made anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b *bench
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
					exists.Store(anew)
					return nil
				}
				b = run(t, store)
				out := b.wait()
				pending(t, out)
				if !anew {
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

// What it waits for may be deleted and made anew with every look: the time is up
// all the same, and so it is when the server stops.
func TestDeletionsWithoutEnd(t *testing.T) {
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
						return queue.Target{}, false, errors.New("it goes on for ever")
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

// A group that is gone is forgotten and resolved anew: the queue was deleted, and
// perhaps made again.
func TestGroupThatIsGoneIsResolvedAnew(t *testing.T) {
	t.Parallel()
	for name, waiting := range map[string]int{"alone": 1, "in a round": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var forgotten atomic.Bool
				store := &fakeStore{}
				store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) {
					if !forgotten.Load() {
						return queue.Target{Group: 1}, true, nil // as remembered
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
				require.Positive(t, store.forgotten)
				b.ready(5, 1, 1)
				got, _ := split(t, outs)
				require.Equal(t, 1, got)
			})
		})
	}
}

// A pop by tags that looks again says so: a group it finds missing then was deleted
// since, and what was stored before is not new to it.
func TestPopByTagsSaysWhatIsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var anew []time.Time
		store := &fakeStore{}
		store.pop = func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
			anew = append(anew, req.RefreshSince)
			return queue.Delivery{Watched: []int64{1}}, nil
		}
		b := run(t, store)
		out := b.begin(context.WithoutCancel(t.Context()), tagged(time.Hour))
		pending(t, out)
		time.Sleep(time.Minute / 2)
		b.bus.Resync("a consumer group was deleted", events.Peer)
		pending(t, out)
		require.Greater(t, len(anew), 2)
		require.Zero(t, anew[0], "the first look registers it")
		require.Equal(t, time.Now(), anew[len(anew)-1])
	})
}
