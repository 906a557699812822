package dispatch_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// joiningFor makes pops find nothing for a while, because their group still joins its queue.
func joiningFor(store *fakeStore, joins time.Duration) {
	until := time.Now().Add(joins)
	store.onPop = func(req *queue.PopRequest) error {
		<-time.After(time.Second)
		if time.Now().Before(until) {
			return queue.Joining(req.Queue, req.Group)
		}
		return nil
	}
}

// A waiting pop continues with the join of its group, and then waits for messages.
func TestAWaitingPopContinuesAJoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		joiningFor(store, 10*time.Second)
		b := run(t, store)
		out := b.begin(t.Context(), request(time.Minute))
		time.Sleep(15 * time.Second)
		pending(t, out)
		b.ready(1, 1, 1)
		require.NoError(t, delivered(t, out).err)
	})
}

// Requests wait for a queue that does not exist. The queue is created with messages, and the group still joins it. Before the end
// of the join, a round would find nothing, and the target would be known to be empty although messages are due. A join announces
// no messages that were stored before it.
func TestRequestsThatWaitedForAQueueGetItsMessagesAfterTheJoin(t *testing.T) {
	t.Parallel()
	const many, partitions = 10, 3
	for name, create := range creations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, exists := missingTarget()
				b := run(t, store)
				outs := b.waitForName(many, request)
				var joined sync.Once
				store.joining.Store(true)
				store.change(func(f *fakeStore) {
					f.onPop = func(*queue.PopRequest) error {
						joined.Do(func() {
							<-time.After(100 * time.Millisecond)
							for p := range int64(partitions) {
								store.put(1, p+1, 1, 0)
							}
							store.joining.Store(false)
						})
						return nil
					}
				})
				exists.Store(true)
				create(b)
				time.Sleep(time.Second)
				got, _ := split(t, outs)
				require.Equal(t, partitions, got)
			})
		})
	}
}

// A pop whose time is up before the end of the join fails, because the queue may have messages. It leaves no known-empty entry.
func TestAPopDoesNotAnswerEmptyWhileItsGroupJoins(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, 5 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				joiningFor(store, time.Minute)
				b := run(t, store)
				a := <-b.begin(t.Context(), request(wait))
				require.ErrorIs(t, a.err, queue.ErrJoining)
				require.LessOrEqual(t, a.took, wait+time.Second)
				before := store.count()
				<-b.begin(t.Context(), request(time.Second))
				require.Greater(t, store.count(), before, "the next pop probes again")
			})
		})
	}
}
