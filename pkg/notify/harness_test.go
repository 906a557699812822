package notify_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// woken says whether the ticket has woken by now.
func woken[K comparable](ticket *notify.Ticket[K]) bool {
	select {
	case <-ticket.C():
		return true
	default:
		return false
	}
}

// requireWoken compares who of the tickets woke with want.
func requireWoken[K comparable](t *testing.T, want []bool, tickets ...*notify.Ticket[K]) {
	t.Helper()
	got := make([]bool, len(tickets))
	for i, ticket := range tickets {
		got[i] = woken(ticket)
	}
	require.Equal(t, want, got)
}

// requireWaiting compares how many tickets and keys there are.
func requireWaiting[K comparable](t *testing.T, n *notify.Notifier[K], tickets, keys int) {
	t.Helper()
	gotTickets, gotKeys := n.Waiting()
	require.Equal(t, []int{tickets, keys}, []int{gotTickets, gotKeys}, "tickets, keys")
}

// requireNothingKept fails when anything of the tickets is left behind.
func requireNothingKept[K comparable](t *testing.T, n *notify.Notifier[K]) {
	t.Helper()
	requireWaiting(t, n, 0, 0)
	require.Empty(t, n.Due(1))
	tickets, keys, instants, armed := n.Kept()
	require.Equal(t, []int{0, 0, 0}, []int{tickets, keys, instants}, "room for tickets, keys, room for instants")
	require.False(t, armed, "the timer is still set")
}
