package sqlwait_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Consumers in SQL leave what they empty due, and then no push announces it.
func TestWhatAConsumerInSQLLeftDueIsSettledBeforeItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		store.onFound = func(findings []queue.ProbeResult) {
			store.mu.Lock()
			defer store.mu.Unlock()
			if len(store.settled) == 0 {
				findings[0].Candidates = append(findings[0].Candidates, queue.Candidate{Partition: 7})
			}
		}
		b := run(t, store)
		b.await()
		require.Equal(t, []int64{7}, store.settled)
		require.Zero(t, b.notified())
		time.Sleep(time.Minute)
		require.Equal(t, 2, store.probes())
		b.ready(1, 7)
		require.Equal(t, 1, b.notified())
	})
}

// So is what lies beside something that somebody holds, but not if that may be told.
func TestWhatAConsumerInSQLLeftDueIsSettledBesideWhatIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{onFound: func(findings []queue.ProbeResult) {
			findings[0].Candidates = []queue.Candidate{{Partition: 1, Depth: 1}, {Partition: 7}}
		}}
		b := run(t, store)
		b.await()
		require.Equal(t, 1, b.notified())
		require.Empty(t, store.settled)
		b.await()
		require.Equal(t, 1, b.notified())
		require.Equal(t, []int64{7, 1}, store.settled, "what seems to be there may be holes")
	})
}

// However much was left, it is settled before it waits.
func TestAllThatConsumersInSQLLeftDueIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		store := &fakeStore{}
		store.onFound = func(findings []queue.ProbeResult) {
			store.mu.Lock()
			defer store.mu.Unlock()
			findings[0].Candidates = nil
			for p := len(store.settled); p < min(many, len(store.settled)+150); p++ {
				findings[0].Candidates = append(findings[0].Candidates, queue.Candidate{Partition: int64(p)})
			}
		}
		b := run(t, store)
		b.await()
		require.Len(t, store.settled, many)
		require.Zero(t, b.notified())
	})
}

// A window that was open again when the cursor fell due holds back what is there, and
// nobody announces its end.
func TestAConsumerInSQLIsToldAfterTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closes := time.Now().Add(10 * time.Second)
		b := run(t, &fakeStore{onFound: func(findings []queue.ProbeResult) {
			findings[0].Candidates = []queue.Candidate{{Partition: 1, Depth: 1, WindowOpen: time.Now().Before(closes)}}
		}})
		b.await()
		time.Sleep(9 * time.Second)
		require.Zero(t, b.notified())
		time.Sleep(time.Second + maxPollInterval)
		require.Equal(t, 1, b.notified())
	})
}

// In a busy group each commit of others is announced.
func TestForAConsumerInSQLABusyGroupIsLookedAtAtAPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.await()
		for range 1000 { // in a second
			b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer)
			time.Sleep(time.Millisecond)
		}
		require.Less(t, b.store.probes(), 50)
		b.ready(1, 1)
		time.Sleep(25 * time.Millisecond)
		require.Equal(t, 1, b.notified())
	})
}

// Many who are woken together look one after the other, and leave connections to others.
func TestForConsumersInSQLThereIsOneLookAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looking, most atomic.Int64
		b := run(t, &fakeStore{onPreflight: func() error {
			most.Store(max(most.Load(), looking.Add(1)))
			time.Sleep(time.Millisecond)
			looking.Add(-1)
			return nil
		}})
		for i := range 100 {
			w := waiter
			w.Channel = fmt.Sprint(i)
			b.bus.SQLWaiter(w)
		}
		time.Sleep(time.Second)
		b.bus.Resync("a test", events.Peer)
		time.Sleep(time.Second)
		require.EqualValues(t, 1, most.Load())
		require.GreaterOrEqual(t, b.store.probes(), 2)
	})
}

// A name that the database cannot hold is looked for once.
func TestWhatCanNeverBeFoundIsNotLookedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		b := run(t, &fakeStore{resolve: func(*queue.PopRequest) (queue.Target, bool, error) {
			looks.Add(1)
			return queue.Target{}, false, queue.Invalidf("no such name")
		}})
		b.await()
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, looks.Load())
	})
}

// What cannot be settled, since somebody holds it, is looked at again.
func TestWhatCannotBeSettledIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var depth atomic.Int64
		store := &fakeStore{onFound: func(findings []queue.ProbeResult) {
			findings[0].Candidates = []queue.Candidate{{Partition: 7, Depth: depth.Load()}}
		}}
		b := run(t, store)
		b.await()
		time.Sleep(time.Minute)
		require.Zero(t, b.notified())
		require.Less(t, store.probes(), 100)
		depth.Store(1)
		time.Sleep(maxPollInterval)
		require.Equal(t, 1, b.notified())
	})
}

// What is announced before the look has a ticket is no less announced.
func TestAConsumerInSQLIsToldOfWhatIsAnnouncedDuringTheLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var announce atomic.Bool
		var b *bench
		b = run(t, &fakeStore{resolve: func(*queue.PopRequest) (queue.Target, bool, error) {
			if announce.Swap(false) {
				b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer)
			}
			return queue.Target{Group: 1}, true, nil
		}})
		b.store.put(1, 0)
		b.await()
		require.Equal(t, 1, b.notified())
		announce.Store(true)
		b.await()
		require.Equal(t, 2, b.notified())
	})
}
