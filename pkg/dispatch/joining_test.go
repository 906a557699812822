package dispatch_test

import (
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
