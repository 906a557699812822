package notify_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

func TestAnAnnouncementWakesOneExclusiveTicketAndAllSharedTickets(t *testing.T) {
	t.Parallel()
	n := notify.New[string]()
	defer n.Close()
	now := time.Now()
	late, early := n.Exclusive(now.Add(time.Hour), "a", "b"), n.Exclusive(now, "b")
	watcher, other := n.Ticket("b"), n.Ticket("c")
	defer other.Close()
	require.Equal(t, 2, n.Announce(time.Time{}, "test", "b", "a"))
	requireWoken(t, []bool{false, true, true, false}, late, early, watcher, other)
	require.Equal(t, notify.Wake[string]{Cause: "test", Keys: []string{"b", "a"}}, early.Accept())
	require.Equal(t, notify.Wake[string]{Cause: "test"}, watcher.Accept(), "a shared ticket gets no keys")
	early.Close()
	requireWoken(t, []bool{false}, late)
	require.Equal(t, 1, n.Announce(time.Time{}, "test", "b", "a"))
	requireWoken(t, []bool{true}, late)
}

// If a ticket closes while it wakes, the next ticket gets the wake.
func TestAWakeThatIsNotAcceptedGoesToTheNextTicket(t *testing.T) {
	t.Parallel()
	for range 500 {
		n := notify.New[int]()
		tickets := make([]*notify.Ticket[int], 10)
		for i := range tickets {
			tickets[i] = n.Exclusive(time.Time{}, 1)
		}
		var both sync.WaitGroup
		both.Go(func() { n.Announce(time.Time{}, "test", 1) })
		both.Go(func() {
			for _, ticket := range tickets[:9] {
				ticket.Close()
				ticket.Close()
			}
		})
		both.Wait()
		requireWoken(t, []bool{true}, tickets[9])
		requireNothingKept(t, n)
		n.Close()
	}
}

// Announce wakes exclusive tickets in the order of their deadlines, also after many tickets were closed.
func TestExclusiveTicketsWakeInOrder(t *testing.T) {
	t.Parallel()
	n := notify.New[int]()
	defer n.Close()
	began := time.Now()
	type entry struct {
		deadline int
		ticket   *notify.Ticket[int]
	}
	var list []entry
	for range 2000 {
		if len(list) > 0 && rand.IntN(3) == 0 {
			at := rand.IntN(len(list))
			list[at].ticket.Close()
			list = slices.Delete(list, at, at+1)
			continue
		}
		deadline := rand.IntN(500)
		list = append(list, entry{deadline, n.Exclusive(began.Add(time.Duration(deadline)), 1, 2)})
	}
	slices.SortStableFunc(list, func(a, b entry) int { return a.deadline - b.deadline })
	for i, e := range list {
		require.Equal(t, 1, n.Announce(time.Time{}, "test", 1+i%2))
		require.True(t, woken(e.ticket), "ticket %d", i)
	}
	requireNothingKept(t, n)
}

// takeItems takes items of the keys, and leaves and returns like requests do.
func takeItems(ctx context.Context, n *notify.Notifier[int], tb *table, keys ...int) {
	for ctx.Err() == nil {
		var held notify.Wake[int]
		leaves := time.After(time.Duration(rand.IntN(1000)) * time.Microsecond)
		for left := false; !left && ctx.Err() == nil; {
			ticket := n.Exclusive(time.Now().Add(time.Duration(rand.IntN(100))*time.Millisecond), keys...)
			found, next := tb.look(keys)
			for key, at := range next {
				n.Announce(at, "test", key)
			}
			if !found {
				held = notify.Wake[int]{}
				ticket.SetIdle(true)
				select {
				case <-ticket.C():
					if left = rand.IntN(4) == 0; !left {
						held = ticket.Accept()
					}
				case <-leaves:
					left = true
				case <-ctx.Done():
				}
			}
			ticket.Close()
			left = left || found
		}
		if len(held.Keys) > 0 { // the found item may have another key, so the wake is forwarded
			n.Announce(time.Time{}, held.Cause, held.Keys...)
		}
	}
}
