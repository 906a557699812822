package notify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

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
	require.False(t, some, "nothing is scheduled for a later waiter, which looks first")
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
