package sqlwait_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A SQL consumer leaves a drained cursor marked ready, and a push to such a cursor announces
// nothing.
func TestDrainedCursorIsSettledBeforeTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		store.onFound = func(results []queue.ProbeResult) {
			store.mu.Lock()
			defer store.mu.Unlock()
			if len(store.settled) == 0 {
				results[0].Candidates = append(results[0].Candidates, queue.Candidate{Partition: 7})
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

func TestDrainedCursorIsSettledOnlyIfTheNotificationMustWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{onFound: func(results []queue.ProbeResult) {
			results[0].Candidates = []queue.Candidate{{Partition: 1, Depth: 1}, {Partition: 7}}
		}}
		b := run(t, store)
		b.await()
		require.Equal(t, 1, b.notified())
		require.Empty(t, store.settled)
		b.await()
		require.Equal(t, 1, b.notified())
		require.Equal(t, []int64{7, 1}, store.settled, "a cursor that seems to have messages may have only gaps")
	})
}

// There are more drained cursors than one probe lists.
func TestAllDrainedCursorsAreSettledBeforeTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		store := &fakeStore{}
		store.onFound = func(results []queue.ProbeResult) {
			store.mu.Lock()
			defer store.mu.Unlock()
			results[0].Candidates = nil
			for p := len(store.settled); p < min(many, len(store.settled)+150); p++ {
				results[0].Candidates = append(results[0].Candidates, queue.Candidate{Partition: int64(p)})
			}
		}
		b := run(t, store)
		b.await()
		require.Len(t, store.settled, many)
		require.Zero(t, b.notified())
	})
}

// If a window is open although the cursor is due, the messages must wait, and nothing announces the end of the window.
func TestEndOfAWindowNotifies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closes := time.Now().Add(10 * time.Second)
		b := run(t, &fakeStore{onFound: func(results []queue.ProbeResult) {
			results[0].Candidates = []queue.Candidate{{Partition: 1, Depth: 1, WindowOpen: time.Now().Before(closes)}}
		}})
		b.await()
		time.Sleep(9 * time.Second)
		require.Zero(t, b.notified())
		time.Sleep(time.Second + maxPollInterval)
		require.Equal(t, 1, b.notified())
	})
}

// In a busy group, each commit of another consumer is announced.
func TestBusyGroupIsProbedAtAPace(t *testing.T) {
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

// Loops that wake together probe one after the other, so that they use only one connection.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		b := run(t, &fakeStore{onPreflight: func() error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Millisecond)
			running.Add(-1)
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

// The database cannot hold the name, so the queue never exists.
func TestInvalidNameIsProbedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var finds atomic.Int64
		b := run(t, &fakeStore{resolve: func(*queue.PopRequest) (queue.Target, bool, error) {
			finds.Add(1)
			return queue.Target{}, false, queue.Invalidf("no such name")
		}})
		b.await()
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, finds.Load())
	})
}

// Another transaction holds the cursor, so Settle does not change it.
func TestCursorThatCannotBeSettledIsProbedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var depth atomic.Int64
		store := &fakeStore{onFound: func(results []queue.ProbeResult) {
			results[0].Candidates = []queue.Candidate{{Partition: 7, Depth: depth.Load()}}
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

func TestAnnouncementBeforeTheTicketOfTheProbeCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var announce atomic.Bool
		var b *harness
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
