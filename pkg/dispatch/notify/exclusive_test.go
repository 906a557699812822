package notify_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

func TestAnAnnouncementWakesOneExclusiveTicketAndAllSharedOnes(t *testing.T) {
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
	require.Equal(t, notify.Wake[string]{Cause: "test"}, watcher.Accept(), "it is not the only one")
	early.Close()
	requireWoken(t, []bool{false}, late)
	require.Equal(t, 1, n.Announce(time.Time{}, "test", "b", "a"))
	requireWoken(t, []bool{true}, late)
}

// A ticket that closes while it wakes forwards the wake, at whatever moment.
func TestAWakeThatIsNotAcceptedGoesToTheNext(t *testing.T) {
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

// Of many tickets that come and go, Announce wakes them in the order of their deadlines.
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

// TestNoAnnouncementToOneIsLost has a publisher for each key, which adds one item at a time, due now or soon. Each
// item is announced once, and a waiter has no fallback timer. The waiters leave at any moment, also
// without a look after a wake. So one wake that is lost, or not forwarded, stops the test.
func TestNoAnnouncementToOneIsLost(t *testing.T) {
	t.Parallel()
	const keys, items = 4, 300
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := notify.New[int]()
	tb := &table{items: map[int]time.Time{}, taken: map[int]chan struct{}{}}
	var publishers, waiters sync.WaitGroup
	all := make([]int, keys)
	for key := range keys {
		all[key] = key
		tb.taken[key] = make(chan struct{}, 1)
	}
	for key := range keys {
		publishers.Go(func() {
			for range items {
				at := time.Now().Add(time.Duration(max(0, rand.IntN(200)-100)) * time.Microsecond)
				tb.publish(key, at)
				n.Announce(at, "test", key)
				select {
				case <-tb.taken[key]:
				case <-ctx.Done():
					assert.Fail(t, "a wake was lost", "of key %d", key)
					return
				}
			}
		})
		for range 5 {
			waiters.Go(func() { takeItems(ctx, n, tb, key) })
			waiters.Go(func() { takeItems(ctx, n, tb, all...) })
		}
	}
	publishers.Wait()
	cancel()
	waiters.Wait()
	n.Close()
	requireNothingKept(t, n)
}

// takeItems takes items of the keys as a request does.
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
		if len(held.Keys) > 0 { // another key may have had the item
			n.Announce(time.Time{}, held.Cause, held.Keys...)
		}
	}
}
