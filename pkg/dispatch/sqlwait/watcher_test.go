package sqlwait_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestReadyNotifiesTheWaiterOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.await()
		time.Sleep(time.Minute)
		require.Zero(t, b.notified())
		require.Equal(t, 1, b.store.probes(), "a waiting session causes no further probe")
		b.ready(1, 1)
		synctest.Wait()
		require.Equal(t, []notification{{waiter.Channel, time.Now()}}, b.store.notifications(), "at once")
		b.ready(1, 1)
		require.Equal(t, 1, b.notified(), "only once")
		require.InDelta(t, 1, b.value("belfry_dispatch_sql_told_total"), 0)
	})
}

// The message was committed after the pop of the waiter and before the announcement of the waiter.
func TestMessageBeforeTheAnnouncementOfTheWaiterIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.store.put(1, 0)
		b.await()
		require.Equal(t, 1, b.notified())
	})
}

func TestEndOfADelayNotifiesTheWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.store.put(1, 10*time.Second)
		b.await()
		time.Sleep(10*time.Second - time.Nanosecond)
		require.Zero(t, b.notified())
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, b.notified())
	})
}

func TestOneNotificationForAllWaitersOfAChannel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		for range 100 {
			b.await()
		}
		another := waiter // of the same group
		another.Channel = "belfry_2"
		b.bus.SQLWaiter(another)
		synctest.Wait()
		require.Equal(t, 1, b.store.probes(), "the group is known to be empty")
		b.ready(1, 1)
		time.Sleep(maxPollInterval)
		require.Equal(t, 2, b.notified())
	})
}

// A probe sees the messages that a consumer holds in an open transaction, but no other session can
// pop them.
func TestMessagesHeldByAConsumerAreNotifiedWithGrowingDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.store.put(1, 0)
		began := time.Now()
		longest := maxPollInterval
		for time.Since(began) < time.Minute {
			before := b.notified()
			b.await()
			time.Sleep(longest)
			require.Equal(t, before+1, b.notified(), "the transaction may have been rolled back")
		}
		began, before := time.Now(), b.notified()
		for time.Since(began) < time.Minute {
			b.await()
			time.Sleep(time.Millisecond)
		}
		require.Less(t, b.notified()-before, int(time.Minute/longest)*5/4)

		b.await()
		before = b.notified()
		b.ready(1, 2)
		require.Equal(t, before+1, b.notified(), "an announcement is notified at once")
		b.await()
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer)
		require.Equal(t, before+2, b.notified(), "the end of the transaction is notified at once")
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer)
		b.await()
		require.Equal(t, before+3, b.notified(), "an announcement before the waiter is notified at once")
		b.await()
		require.Equal(t, before+3, b.notified())
		time.Sleep(pollInterval)
		require.Equal(t, before+4, b.notified(), "the next delay is the shortest delay again")
	})
}

func TestPausedPartitionDoesNotNotify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var resumed atomic.Bool
		store := &fakeStore{onFound: func(results []queue.ProbeResult) {
			results[0].Candidates = []queue.Candidate{{Partition: 1, Depth: 1, Paused: !resumed.Load()}}
		}}
		b := run(t, store)
		b.await()
		time.Sleep(time.Minute)
		require.Zero(t, b.notified())
		require.Equal(t, 1, store.probes())
		b.ready(1, 1)
		require.Equal(t, 1, store.probes(), "nothing becomes poppable before the resume")
		resumed.Store(true)
		b.bus.Resync("a pause ended", events.Peer)
		synctest.Wait()
		require.Equal(t, 1, b.notified())
	})
}

func TestFallbackIntervalNotifiesAndThenDropsTheChannel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.await()
		interval := fallbackInterval
		time.Sleep(interval * 8 / 10)
		require.Zero(t, b.notified())
		time.Sleep(interval * 2 / 10)
		require.Equal(t, 1, b.notified())
		require.InDelta(t, 1, b.value("belfry_dispatch_sql_waiters"), 0)
		time.Sleep(interval)
		synctest.Wait()
		require.Zero(t, b.value("belfry_dispatch_sql_waiters"))
		require.Equal(t, 1, b.notified())
		b.await()
		b.ready(1, 1)
		require.Equal(t, 2, b.notified(), "the waiter may announce itself again")
	})
}

func TestCreationOfTheQueueNotifies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var there atomic.Bool
		var group atomic.Int64
		store := &fakeStore{resolve: func(*queue.PopRequest) (queue.Target, bool, error) {
			return queue.Target{Group: group.Load()}, there.Load(), nil
		}}
		b := run(t, store)
		b.await()
		b.bus.Created("", "", events.Peer)
		require.Zero(t, b.notified(), "another queue was created")
		there.Store(true)
		b.bus.Created("orders", "", events.Here)
		require.Equal(t, 1, b.notified(), "a pop registers the group")
		group.Store(1)
		b.await()
		require.Equal(t, 1, b.notified())
		b.ready(1, 1)
		require.Equal(t, 2, b.notified())
	})
}

// The queue is created after Find and before the ticket is taken, so the announcement of the creation wakes no ticket.
func TestCreationDuringTheProbeIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var finds atomic.Int64
		b := run(t, &fakeStore{resolve: func(*queue.PopRequest) (queue.Target, bool, error) {
			return queue.Target{Group: 1}, finds.Add(1) > 1, nil
		}})
		b.store.put(1, 0)
		b.await()
		time.Sleep(pollInterval)
		require.Equal(t, 1, b.notified())
	})
}

func TestGroupThatIsGoneIsResolvedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group atomic.Int64
		group.Store(1)
		store := &fakeStore{gone: map[int64]bool{1: true}, onForget: func() { group.Store(2) }}
		store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) {
			return queue.Target{Group: group.Load()}, true, nil
		}
		b := run(t, store)
		b.await()
		time.Sleep(pollInterval)
		require.Zero(t, b.notified())
		b.ready(2, 1)
		require.Equal(t, 1, b.notified())
	})
}

// While the listener is not proven, commits of other instances are not announced.
func TestProbesContinueWhileTheListenerIsNotProven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.unproven.Store(true)
		b.await()
		time.Sleep(time.Minute)
		require.Zero(t, b.notified())
		b.store.put(1, 0) // by another instance
		time.Sleep(maxPollInterval)
		require.Equal(t, 1, b.notified())
	})
}

func TestFailingDatabaseDelaysTheNotification(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var probesFail, notifyFails atomic.Bool
		failing := func(how *atomic.Bool) error {
			if how.Load() {
				return errors.New("no connection")
			}
			return nil
		}
		probesFail.Store(true)
		notifyFails.Store(true)
		store := &fakeStore{
			onPreflight: func() error { return failing(&probesFail) }, onTell: func(string) error { return failing(&notifyFails) },
		}
		b := run(t, store)
		store.put(1, 0)
		b.await()
		time.Sleep(time.Minute)
		require.Less(t, b.logs.FilterMessageSnippet("probing for a SQL waiter failed").Len(), 100)
		probesFail.Store(false)
		time.Sleep(time.Minute)
		require.Zero(t, b.notified())
		require.Less(t, b.logs.FilterMessageSnippet("notifying SQL waiters failed").Len(), 100)
		notifyFails.Store(false)
		time.Sleep(maxPollInterval)
		require.Equal(t, 1, b.notified())
	})
}

func TestListeningAsksAllWaitersToAnnounceAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.bus.Listening()
		synctest.Wait()
		require.Equal(t, []notification{{queue.AwaitAgainChannel, time.Now()}}, b.store.notifications())
	})
}

func TestRefusedWaitersAreAskedToAnnounceAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		for i := range 10_002 {
			w := waiter
			w.Channel = fmt.Sprint(i)
			b.bus.SQLWaiter(w)
		}
		synctest.Wait()
		require.InDelta(t, 10_000, b.value("belfry_dispatch_sql_waiters"), 0)
		require.Equal(t, 1, b.logs.FilterLevelExact(zap.WarnLevel).Len())
		b.ready(1, 1)
		require.Equal(t, 10_000, b.notified())
		time.Sleep(fallbackInterval)
		synctest.Wait()
		require.Equal(t, notification{queue.AwaitAgainChannel, time.Now()}, b.store.notifications()[10_000])
	})
}
