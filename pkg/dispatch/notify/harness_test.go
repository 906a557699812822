package notify_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// woken reports whether the ticket has woken.
func woken[K comparable](ticket *notify.Ticket[K]) bool {
	select {
	case <-ticket.C():
		return true
	default:
		return false
	}
}

// requireWoken requires that exactly the tickets with true in want have woken.
func requireWoken[K comparable](t *testing.T, want []bool, tickets ...*notify.Ticket[K]) {
	t.Helper()
	got := make([]bool, len(tickets))
	for i, ticket := range tickets {
		got[i] = woken(ticket)
	}
	require.Equal(t, want, got)
}

// requireWaiting requires the number of open tickets and of their keys.
func requireWaiting[K comparable](t *testing.T, n *notify.Notifier[K], tickets, keys int) {
	t.Helper()
	gotTickets, gotKeys := n.Waiting()
	require.Equal(t, []int{tickets, keys}, []int{gotTickets, gotKeys}, "tickets, keys")
}

// requireNothingKept requires that the Notifier holds no memory for tickets.
func requireNothingKept[K comparable](t *testing.T, n *notify.Notifier[K]) {
	t.Helper()
	requireWaiting(t, n, 0, 0)
	require.Empty(t, n.Due(1))
	tickets, keys, instants, armed := n.Kept()
	require.Equal(t, []int{0, 0, 0}, []int{tickets, keys, instants}, "capacity for tickets, keys, capacity for instants")
	require.False(t, armed, "the timer is still set")
}
