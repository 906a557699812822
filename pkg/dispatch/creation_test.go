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

// mostLooks is more than the number of store calls that one creation causes, however many requests wait for the name. One request
// resolves the name, claims, and probes once more.
const mostLooks = 10

// creations are the ways in which a request learns that the queue was created.
func creations() map[string]func(*harness) {
	return map[string]func(*harness){
		"the queue":            func(b *harness) { b.bus.Created("orders", "", events.Here) },
		"the queue, on a peer": func(b *harness) { b.bus.Created("", "", events.Peer) },
	}
}

// waitForName waits n times for a name that does not exist.
func (b *harness) waitForName(n int, req func(time.Duration) *queue.PopRequest) []<-chan answer {
	b.t.Helper()
	outs := make([]<-chan answer, n)
	for i := range outs {
		outs[i] = b.begin(context.WithoutCancel(b.t.Context()), req(time.Hour))
	}
	_, waiting := split(b.t, outs)
	require.Equal(b.t, n, waiting)
	return outs
}

// A creation wakes one of the requests that wait for the name, also if nothing is pushed. A pushed message then wakes one
// request.
func TestACreationWakesOneRequestForEachName(t *testing.T) {
	t.Parallel()
	const many = 300
	all := creations()
	all["the partition"] = func(b *harness) { b.bus.Created("orders", "1", events.Here) }
	for name, create := range all {
		for kind, req := range map[string]func(time.Duration) *queue.PopRequest{"any partition": request, "one partition": specific} {
			if name == "the partition" && kind == "any partition" {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store, exists := missingTarget()
					b := run(t, store)
					outs := b.waitForName(many, req)
					before := store.looks()
					b.bus.Created("another", "", events.Here)
					b.bus.Created("orders", "2", events.Here)
					_, waiting := split(t, outs)
					require.Equal(t, many, waiting)
					require.Equal(t, before, store.looks(), "another name was created")
					create(b)
					_, waiting = split(t, outs)
					require.Equal(t, many, waiting)
					require.LessOrEqual(t, store.looks()-before, mostLooks, "the queue does not exist any more")
					before = store.looks()
					exists.Store(true)
					create(b)
					_, waiting = split(t, outs)
					require.Equal(t, many, waiting)
					require.LessOrEqual(t, store.looks()-before, mostLooks, "nothing was pushed")
					before = store.looks()
					b.ready(1, 1, 1)
					got, _ := split(t, outs)
					require.Equal(t, 1, got)
					require.LessOrEqual(t, store.looks()-before, mostLooks, "one message")
				})
			})
		}
	}
}

// The messages of the first push are committed before any request probes. For each partition one request probes and gets the
// message. The other requests do not probe.
func TestFirstMessagesOfANewQueueAreDelivered(t *testing.T) {
	t.Parallel()
	const many, partitions = 300, 40
	for name, create := range creations() {
		for order, announced := range map[string]bool{"with announced messages": true, "with unannounced messages": false} {
			t.Run(name+" "+order, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store, exists := missingTarget()
					b := run(t, store)
					outs := b.waitForName(many, request)
					before := store.looks()
					exists.Store(true)
					var ready []queue.Ready
					for p := range int64(partitions) {
						store.put(1, p+1, 1, 0)
						ready = append(ready, queue.Ready{Group: 1, Partition: p + 1})
					}
					create(b)
					if announced {
						b.bus.Ready(ready, events.Here)
					}
					got, _ := split(t, outs)
					require.Equal(t, partitions, got)
					require.LessOrEqual(t, store.looks()-before, 5*partitions+mostLooks)
				})
			})
		}
	}
}

// The first request that a creation wakes leaves, or its probe fails. Then another request probes.
func TestCreationIsForwarded(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"its client leaves": true, "its probe fails": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, exists := missingTarget()
				answer, failed := store.resolve, false
				ctx, leave := context.WithCancel(t.Context())
				store.resolve = func(req *queue.PopRequest) (queue.Target, bool, error) {
					if exists.Load() && !failed {
						failed = true
						if leave(); leaves {
							return targetOf(req), true, nil
						}
						return queue.Target{}, false, fmt.Errorf("the connection is lost")
					}
					return answer(req)
				}
				b := run(t, store)
				first := b.begin(ctx, request(30*time.Minute)) // its deadline is the earliest
				pending(t, first)
				others := b.waitForName(10, request)
				exists.Store(true)
				store.put(1, 1, 1, 0)
				b.bus.Created("orders", "", events.Here)
				require.Error(t, answered(t, first).err)
				time.Sleep(time.Second)
				got, _ := split(t, others)
				require.Equal(t, 1, got)
			})
		})
	}
}

// The queue is deleted and created again while requests wait for it.
func TestAQueueIsCreatedAgain(t *testing.T) {
	t.Parallel()
	const many = 100
	synctest.Test(t, func(t *testing.T) {
		var group atomic.Int64
		store := &fakeStore{}
		store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) {
			return queue.Target{Group: group.Load()}, group.Load() > 0, nil
		}
		b := run(t, store)
		outs := b.waitForName(many, request)
		for id := int64(1); id <= 3; id++ {
			group.Store(id)
			b.bus.Created("orders", "", events.Here)
			b.ready(id, id, 1)
			got, _ := split(t, outs)
			require.Equal(t, 1, got, "creation %d", id)
			store.change(func(f *fakeStore) { f.gone = map[int64]bool{id: true} })
			group.Store(0)
			b.bus.Resync("a queue was deleted", events.Here)
			got, _ = split(t, outs)
			require.Zero(t, got)
		}
	})
}

// A new queue wakes one pop of each set of tags. This pop gets the message, or it makes the other pops wait for the new group.
func TestACreationWakesOnePopForEachSetOfTags(t *testing.T) {
	t.Parallel()
	const many = 200
	for name, create := range creations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var messages atomic.Int64
				var watched atomic.Pointer[[]int64]
				watched.Store(&[]int64{1})
				store := &fakeStore{}
				store.pop = func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
					if messages.Add(-1) >= 0 {
						return queue.Delivery{Messages: make([]queue.Message, 1), Watched: *watched.Load()}, nil
					}
					messages.Store(0)
					return queue.Delivery{Watched: *watched.Load()}, nil
				}
				b := run(t, store)
				outs := b.waitForName(many, tagged)
				before := store.looks()
				watched.Store(&[]int64{1, 2})
				create(b)
				_, waiting := split(t, outs)
				require.Equal(t, many, waiting)
				require.LessOrEqual(t, store.looks()-before, mostLooks, "nothing was pushed")
				before = store.looks()
				messages.Store(1)
				b.bus.Ready([]queue.Ready{{Group: 2, Partition: 1}}, events.Here)
				got, _ := split(t, outs)
				require.Equal(t, 1, got)
				require.LessOrEqual(t, store.looks()-before, mostLooks, "one message")
				before = store.looks()
				messages.Store(3)
				create(b)
				got, _ = split(t, outs)
				require.Equal(t, 3, got, "the new queue has messages that nobody announced")
				require.LessOrEqual(t, store.looks()-before, mostLooks)
			})
		})
	}
}
