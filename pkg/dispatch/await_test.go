package dispatch_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// wish waits for the group with the id 1.
var wish = queue.SQLWaiter{Queue: "orders", Group: "g", Channel: "belfry_1"}

// await asks as a consumer in SQL does, and returns when nothing moves any more.
func (b *bench) await() {
	b.t.Helper()
	b.bus.SQLWaiter(wish)
	synctest.Wait()
}

// told returns how often those who asked have been told, once nothing moves.
func (b *bench) told() int {
	b.t.Helper()
	synctest.Wait()
	return len(b.store.told())
}

func TestAConsumerInSQLIsToldWhenSomethingIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.await()
		time.Sleep(time.Minute)
		require.Zero(t, b.told())
		require.Equal(t, calls{preflights: 1}, b.store.calls(), "waiting costs nothing")
		b.ready(1, 1, 1)
		synctest.Wait()
		require.Equal(t, []tell{{wish.Channel, time.Now()}}, b.store.told(), "at once")
		b.ready(1, 1, 1)
		require.Equal(t, 1, b.told(), "once")
		require.Zero(t, b.store.calls().claims, "nothing was taken for it")
		require.InDelta(t, 1, b.value("belfry_dispatch_sql_told_total"), 0)
	})
}

// What came between its pop and its wish is there when it is looked for.
func TestAConsumerInSQLIsToldOfWhatIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.store.put(1, 1, 1, 0)
		b.await()
		require.Equal(t, 1, b.told())
	})
}

func TestAConsumerInSQLIsToldWhenADelayIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.store.put(1, 1, 1, 10*time.Second)
		b.await()
		time.Sleep(10*time.Second - time.Nanosecond)
		require.Zero(t, b.told())
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, b.told())
	})
}

func TestManyConsumersInSQLAreToldTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		for range 100 {
			b.await()
		}
		another := wish // of the same group, as a name that is written otherwise
		another.Channel = "belfry_2"
		b.bus.SQLWaiter(another)
		synctest.Wait()
		require.Equal(t, 1, b.store.calls().preflights, "nothing is there, as is known")
		b.ready(1, 1, 1)
		time.Sleep(dispatch.DefaultConfig().MaxPollInterval)
		require.Equal(t, 2, b.told())
	})
}

// What a consumer holds in an open transaction is due to every look, and yet
// nobody else can pop it.
func TestConsumersInSQLAreToldEverLaterOfWhatOneOfThemHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.store.put(1, 1, 1, 0)
		began := time.Now()
		longest := dispatch.DefaultConfig().MaxPollInterval
		for time.Since(began) < time.Minute {
			before := b.told()
			b.await()
			time.Sleep(longest)
			require.Equal(t, before+1, b.told(), "it may have been rolled back")
		}
		began, before := time.Now(), b.told()
		for time.Since(began) < time.Minute {
			b.await()
			time.Sleep(time.Millisecond)
		}
		require.Less(t, b.told()-before, int(time.Minute/longest)*5/4)

		b.await()
		before = b.told()
		b.ready(1, 2, 1)
		require.Equal(t, before+1, b.told(), "what is announced is told at once")
		b.await()
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer)
		require.Equal(t, before+2, b.told(), "as is the end of the transaction")
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer)
		b.await()
		require.Equal(t, before+3, b.told(), "also before it asks")
		b.await()
		require.Equal(t, before+3, b.told())
		time.Sleep(dispatch.DefaultConfig().PollInterval)
		require.Equal(t, before+4, b.told(), "and then it begins anew")
	})
}

func TestAConsumerInSQLIsNotToldOfWhatIsPaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var resumed atomic.Bool
		store := &fakeStore{onFound: func(findings []queue.ProbeResult) {
			findings[0].Candidates = []queue.Candidate{{Partition: 1, Depth: 1, Paused: !resumed.Load()}}
		}}
		b := run(t, store)
		b.await()
		time.Sleep(time.Minute)
		require.Zero(t, b.told())
		require.Equal(t, 1, store.calls().preflights)
		resumed.Store(true)
		b.ready(1, 1, 1)
		require.Equal(t, 1, b.told())
	})
}

// After the fallback interval it looks itself; and whom nobody asks any more is
// forgotten.
func TestAConsumerInSQLIsToldAtTheFallbackInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.await()
		life := dispatch.DefaultConfig().FallbackInterval
		time.Sleep(life * 8 / 10)
		require.Zero(t, b.told())
		time.Sleep(life * 2 / 10)
		require.Equal(t, 1, b.told())
		require.InDelta(t, 1, b.value("belfry_dispatch_sql_wishes"), 0)
		time.Sleep(life)
		synctest.Wait()
		require.Zero(t, b.value("belfry_dispatch_sql_wishes"))
		require.Equal(t, 1, b.told())
		b.await()
		b.ready(1, 1, 1)
		require.Equal(t, 2, b.told(), "and may ask again")
	})
}

func TestAConsumerInSQLIsToldOfABirth(t *testing.T) {
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
		require.Zero(t, b.told(), "it was another one")
		there.Store(true)
		b.bus.Created("orders", "", events.Here)
		require.Equal(t, 1, b.told(), "a pop registers the group")
		group.Store(1)
		b.await()
		require.Equal(t, 1, b.told())
		b.ready(1, 1, 1)
		require.Equal(t, 2, b.told())
	})
}

// The birth comes between the look for the queue and the ticket, and wakes nobody.
func TestAConsumerInSQLIsToldOfABirthDuringTheLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		b := run(t, &fakeStore{resolve: func(*queue.PopRequest) (queue.Target, bool, error) {
			return queue.Target{Group: 1}, looks.Add(1) > 1, nil
		}})
		b.store.put(1, 1, 1, 0)
		b.await()
		time.Sleep(dispatch.DefaultConfig().PollInterval)
		require.Equal(t, 1, b.told())
	})
}

// A group that was deleted and made anew is another one.
func TestAConsumerInSQLIsToldOfAGroupMadeAnew(t *testing.T) {
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
		time.Sleep(dispatch.DefaultConfig().PollInterval)
		require.Zero(t, b.told())
		b.ready(2, 1, 1)
		require.Equal(t, 1, b.told())
	})
}

// While the listener is not proven, nobody says what others do.
func TestForAConsumerInSQLItIsLookedWhileTheListenerIsNotProven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, unproven)
		b.await()
		time.Sleep(time.Minute)
		require.Zero(t, b.told())
		b.store.put(1, 1, 1, 0) // by another instance
		time.Sleep(dispatch.DefaultConfig().MaxPollInterval)
		require.Equal(t, 1, b.told())
	})
}

func TestADatabaseThatFailsDelaysTheTellingAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var blind, mute atomic.Bool
		failing := func(how *atomic.Bool) error {
			if how.Load() {
				return errors.New("no connection")
			}
			return nil
		}
		blind.Store(true)
		mute.Store(true)
		store := &fakeStore{
			onPreflight: func(time.Duration) error { return failing(&blind) }, onTell: func(string) error { return failing(&mute) },
		}
		b := run(t, store)
		store.put(1, 1, 1, 0)
		b.await()
		time.Sleep(time.Minute)
		require.Less(t, b.logs.FilterMessageSnippet("a look for consumers in SQL failed").Len(), 100)
		blind.Store(false)
		time.Sleep(time.Minute)
		require.Zero(t, b.told())
		require.Less(t, b.logs.FilterMessageSnippet("could not be told").Len(), 100)
		mute.Store(false)
		time.Sleep(dispatch.DefaultConfig().MaxPollInterval)
		require.Equal(t, 1, b.told())
	})
}

func TestAllConsumersInSQLAreToldToAskAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.bus.Listening()
		synctest.Wait()
		require.Equal(t, []tell{{queue.AwaitAgainChannel, time.Now()}}, b.store.told())
	})
}

// Those for whom there is no room are not stuck: they are told to ask again.
func TestMoreWishesThanTheBoundAreToldToAskAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		for i := range 10_002 {
			w := wish
			w.Channel = fmt.Sprint(i)
			b.bus.SQLWaiter(w)
		}
		synctest.Wait()
		require.InDelta(t, 10_000, b.value("belfry_dispatch_sql_wishes"), 0)
		require.Equal(t, 1, b.logs.FilterLevelExact(zap.WarnLevel).Len())
		b.ready(1, 1, 1)
		require.Equal(t, 10_000, b.told())
		time.Sleep(dispatch.DefaultConfig().FallbackInterval)
		synctest.Wait()
		require.Equal(t, tell{queue.AwaitAgainChannel, time.Now()}, b.store.told()[10_000])
	})
}
