package notify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

func TestAnnounceWakesEveryTicketOfTheKeyOnce(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	defer n.Close()
	a, b, other := n.Ticket("orders"), n.Ticket("orders"), n.Ticket("mails")
	requireWoken(t, []bool{false, false, false}, a, b, other)
	requireWaiting(t, n, 3, 2)

	require.Equal(t, 2, n.Announce(time.Now(), notify.ByTimer, "orders"))
	requireWoken(t, []bool{true, true, false}, a, b, other)
	requireWaiting(t, n, 1, 1)
	require.Zero(t, n.Announce(time.Now(), notify.ByTimer, "orders"), "woken tickets are removed")

	require.Equal(t, 1, n.Announce(time.Time{}, notify.ByTimer, "mails"), "an instant in the past wakes now")
	requireWoken(t, []bool{true}, other)
	requireNothingKept(t, n)
	require.Zero(t, n.WokenByTimer())
}

func TestAnnouncingAKeyWithoutTicketsKeepsNothing(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	defer n.Close()
	require.Zero(t, n.Announce(time.Now(), notify.ByTimer, "orders"))
	require.Zero(t, n.Announce(time.Now().Add(time.Hour), notify.ByTimer, "orders"))
	requireNothingKept(t, n)
	late := n.Ticket("orders")
	defer late.Close()
	requireWoken(t, []bool{false}, late)
	_, some := n.Next()
	require.False(t, some, "a later waiter looks first")
}

func TestATicketOfSeveralKeysWakesWithAnyOfThem(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a", "b", "c"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			n := notify.New[string]()
			defer n.Close()
			several, single := n.Ticket("a", "b", "c"), n.Ticket("b")
			requireWaiting(t, n, 2, 3)
			wokenWithIt := 1
			if key == "b" {
				wokenWithIt = 2
			}
			require.Equal(t, wokenWithIt, n.Announce(time.Now(), notify.ByTimer, key))
			requireWoken(t, []bool{true, key == "b"}, several, single)
			requireWaiting(t, n, 2-wokenWithIt, 2-wokenWithIt)
			require.Equal(t, 2-wokenWithIt, n.BroadcastAll(notify.ByTimer), "a woken ticket is removed from its other keys")
			requireNothingKept(t, n)
		})
	}
}

func TestARepeatedKeyCountsOnce(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	defer n.Close()
	ticket := n.Ticket("a", "b", "a", "a")
	requireWaiting(t, n, 1, 2)
	require.Equal(t, 1, n.Announce(time.Now(), notify.ByTimer, "a"))
	requireWoken(t, []bool{true}, ticket)
	requireNothingKept(t, n)
	n.Ticket("a", "a").Close()
	requireNothingKept(t, n)
}

func TestBroadcastAllWakesEveryTicket(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	defer n.Close()
	a, several, none := n.Ticket("a"), n.Ticket("a", "b"), n.Ticket()
	closed := n.Ticket("a")
	closed.Close()
	require.Zero(t, n.Announce(time.Now().Add(time.Hour), notify.ByTimer, "b"))
	require.Equal(t, 3, n.BroadcastAll(notify.ByTimer))
	requireWoken(t, []bool{true, true, true, false}, a, several, none, closed)
	requireNothingKept(t, n)
	require.Zero(t, n.BroadcastAll(notify.ByTimer))
}

func TestOnlyBroadcastAllWakesATicketWithoutKeys(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	defer n.Close()
	ticket := n.Ticket()
	requireWaiting(t, n, 1, 0)
	require.Zero(t, n.Announce(time.Now(), notify.ByTimer, ""))
	requireWoken(t, []bool{false}, ticket)
	require.Equal(t, 1, n.BroadcastAll(notify.ByTimer))
	requireWoken(t, []bool{true}, ticket)
	n.Ticket().Close()
	requireNothingKept(t, n)
}

func TestAClosedTicketDoesNotWake(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	defer n.Close()
	first, second, third := n.Ticket("a"), n.Ticket("a", "b"), n.Ticket("a")
	second.Close()
	second.Close()
	requireWaiting(t, n, 2, 1)
	require.Equal(t, 2, n.Announce(time.Now(), notify.ByTimer, "a"))
	requireWoken(t, []bool{true, false, true}, first, second, third)
	// Closing after the wake, once or twice, does not panic and affects no other ticket.
	later := n.Ticket("a")
	first.Close()
	first.Close()
	third.Close()
	requireWaiting(t, n, 1, 1)
	require.Equal(t, 1, n.Announce(time.Now(), notify.ByTimer, "a"))
	requireWoken(t, []bool{true}, later)
}

func TestCloseWakesEveryTicketAndIgnoresLaterCalls(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	waiting, scheduled := n.Ticket("a"), n.Ticket("b")
	require.Zero(t, n.Announce(time.Now().Add(time.Hour), notify.ByTimer, "b"))
	n.Close()
	n.Close()
	requireWoken(t, []bool{true, true}, waiting, scheduled)
	waiting.Close()
	requireNothingKept(t, n)

	late := n.Ticket("a")
	require.Zero(t, n.Announce(time.Now(), notify.ByTimer, "a"))
	require.Zero(t, n.Announce(time.Now().Add(time.Hour), notify.ByTimer, "a"))
	require.Zero(t, n.BroadcastAll(notify.ByTimer))
	requireWoken(t, []bool{false}, late)
	late.Close()
	requireNothingKept(t, n)
}
