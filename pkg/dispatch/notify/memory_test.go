package notify_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

// Each ticket has one to four of 500 keys. The tickets leave in random order. Some
// wake, most leave while an instant is scheduled.
func TestNoMemoryIsKeptForTicketsThatLeft(t *testing.T) {
	t.Parallel()
	n := notify.New[int]()
	defer n.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		tickets := make([]*notify.Ticket[int], 0, 2000)
		for range cap(tickets) {
			keys := make([]int, 1+random.IntN(4))
			for i := range keys {
				keys[i] = random.IntN(500)
			}
			tickets = append(tickets, n.Ticket(keys...))
			n.Announce(time.Now().Add(time.Hour+time.Duration(random.IntN(1000))*time.Second), notify.ByTimer, keys[0])
		}
		for range 50 {
			n.Announce(time.Now(), notify.ByTimer, random.IntN(500))
		}
		random.Shuffle(len(tickets), func(i, j int) { tickets[i], tickets[j] = tickets[j], tickets[i] })
		still, keys := n.Waiting()
		require.Positive(t, keys)
		for _, ticket := range tickets {
			if !woken(ticket) {
				still--
			}
			ticket.Close()
		}
		require.Zero(t, still, "every ticket that did not wake was open")
		requireNothingKept(t, n)
	}
}

// A key that always has tickets does not keep the keys that Extend gave to earlier tickets.
func TestKeysOfExtendEndWithTheirTickets(t *testing.T) {
	t.Parallel()
	n := notify.New[int]()
	defer n.Close()
	ticket := n.Exclusive(time.Time{}, -1)
	for key := range 1000 {
		n.Extend(-1, key)
		n.Extend(-1, key)
		require.Equal(t, 1, n.CountExclusive(key))
		next := n.Exclusive(time.Time{}, -1)
		ticket.Close()
		ticket = next
	}
	require.Less(t, n.Extended(-1), 3)
	ticket.Close()
	requireNothingKept(t, n)
}

// This test is not parallel, because it counts the goroutines of the process.
func TestInstantsNeedNoGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	n := notify.New[int]()
	defer n.Close()
	for key := range 10_000 {
		n.Ticket(key)
		n.Announce(time.Now().Add(time.Hour+time.Duration(key)), notify.ByTimer, key)
	}
	require.NoError(t, goleak.Find(before))
}

// This test is not parallel, because it counts the allocations of the process.
func TestAnnounceDoesNotAllocate(t *testing.T) {
	n := notify.New[int]()
	defer n.Close()
	past := time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() { n.Announce(past, notify.ByTimer, 1) }), "the key has no tickets")

	n.Ticket(2)
	future := past.Add(time.Hour)
	n.Announce(future, notify.ByTimer, 2)
	require.Zero(t, testing.AllocsPerRun(100, func() { n.Announce(future, notify.ByTimer, 2) }), "the instant is already scheduled")
}
