package notify_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

func TestTicketsWakeAtTheAnnouncedInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[string]()
		defer n.Close()
		started := time.Now()
		before := n.Ticket("a")
		require.Zero(t, n.Announce(started.Add(time.Minute), notify.ByTimer, "a"))
		after, other := n.Ticket("a"), n.Ticket("b")
		defer other.Close()

		time.Sleep(time.Minute - 1)
		synctest.Wait()
		requireWoken(t, []bool{false, false, false}, before, after, other)
		<-before.C()
		<-after.C()
		require.Equal(t, time.Minute, time.Since(started))
		synctest.Wait()
		requireWoken(t, []bool{false}, other)
		require.EqualValues(t, 2, n.WokenByTimer())
		requireWaiting(t, n, 1, 1)
	})
}

func TestKeysWakeInTheOrderOfTheirInstants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[int]()
		defer n.Close()
		started := time.Now()
		tickets := make([]*notify.Ticket[int], 100)
		for key := range tickets {
			tickets[key] = n.Ticket(key)
			// The second call sets an earlier instant, which replaces the first. Two keys share each instant, and the instants are
			// in no order.
			n.Announce(started.Add(time.Duration(key)*time.Minute+time.Hour), notify.ByTimer, key)
			n.Announce(started.Add(time.Duration(key*37%50+1)*time.Second), notify.ByTimer, key)
		}
		for second := 1; second <= 50; second++ {
			time.Sleep(time.Second)
			synctest.Wait()
			for key, ticket := range tickets {
				require.Equal(t, key*37%50+1 <= second, woken(ticket), "key %d after %d s", key, second)
			}
		}
		requireNothingKept(t, n)
	})
}

func TestDueListsTheEarliestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[int]()
		defer n.Close()
		require.Nil(t, n.Due(10))
		started := time.Now()
		var want []notify.Instant[int]
		for key := range 20 {
			n.Ticket(key)
			in := time.Duration(key*7%20+1) * time.Second
			n.Announce(started.Add(in), notify.ByTimer, key)
			want = append(want, notify.Instant[int]{Key: key, At: started.Add(in)})
		}
		slices.SortFunc(want, func(a, b notify.Instant[int]) int { return a.At.Compare(b.At) })
		require.Equal(t, want, n.Due(20))
		require.Equal(t, want, n.Due(21))
		require.Equal(t, want[:3], n.Due(3))
		require.Empty(t, n.Due(0))
		require.Empty(t, n.Due(-1))
		next, some := n.Next()
		require.True(t, some)
		require.Equal(t, want[0].At, next)
	})
}

// An instant that was read from a database has no monotonic reading and another
// location.
func TestAnInstantWithoutMonotonicReadingWakesAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[string]()
		defer n.Close()
		started := time.Now()
		ticket, own := n.Ticket("a"), n.Ticket("b")
		n.Announce(started.Add(time.Minute).Round(0).In(time.FixedZone("elsewhere", 3600)), notify.ByTimer, "a")
		n.Announce(started.Add(time.Minute), notify.ByTimer, "b")
		require.Equal(t, []time.Time{started.Add(time.Minute), started.Add(time.Minute)},
			[]time.Time{n.Due(2)[0].At, n.Due(2)[1].At})
		<-ticket.C()
		<-own.C()
		require.Equal(t, time.Minute, time.Since(started))
	})
}

func TestAnInstantBeyondTheRangeOfDurationsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[string]()
		defer n.Close()
		started := time.Now()
		far, near := n.Ticket("far"), n.Ticket("near")
		n.Announce(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), notify.ByTimer, "far")
		n.Announce(started.Add(time.Hour), notify.ByTimer, "near")
		<-near.C()
		require.Equal(t, time.Hour, time.Since(started))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		requireWoken(t, []bool{false}, far)
		far.Close()
		requireNothingKept(t, n)
	})
}
