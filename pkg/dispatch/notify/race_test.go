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

// patience is how long a test waits for a wake that must happen at once.
const patience = time.Minute

// table has at most one item for each key, and the instant from which on a waiter may take the item.
type table struct {
	mu    sync.Mutex
	items map[int]time.Time
	taken map[int]chan struct{} // buffered: signals the publisher of the key
}

// publish adds an item of key.
func (tb *table) publish(key int, at time.Time) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.items[key] = at
}

// look takes a due item of one of the keys. If no item is due, it returns when each item becomes due.
func (tb *table) look(keys []int) (found bool, next map[int]time.Time) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	next = map[int]time.Time{}
	for _, key := range keys {
		at, some := tb.items[key]
		switch {
		case some && !at.After(time.Now()):
			delete(tb.items, key)
			tb.taken[key] <- struct{}{}
			return true, nil
		case some:
			next[key] = at
		}
	}
	return false, next
}

// TestNoWakeIsLost has a publisher for each key. The publisher adds one item, due now or soon, and continues when a waiter has
// taken the item. Waiters have no fallback timer, so one lost wake stops the test. Waiters with exclusive tickets also leave and
// return at random.
func TestNoWakeIsLost(t *testing.T) {
	t.Parallel()
	const keys, items, waitersOfEach = 4, 300, 3
	for name, wait := range map[string]func(context.Context, *notify.Notifier[int], *table, ...int){
		"shared tickets": waitForItems, "exclusive tickets": takeItems,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
				publishers.Go(func() { publishItems(ctx, t, n, tb, key, items) })
				for range waitersOfEach {
					waiters.Go(func() { wait(ctx, n, tb, key) })
					waiters.Go(func() { wait(ctx, n, tb, all...) })
				}
			}
			publishers.Wait()
			cancel()
			waiters.Wait()
			n.Close()
			requireNothingKept(t, n)
		})
	}
}

func publishItems(ctx context.Context, t *testing.T, n *notify.Notifier[int], tb *table, key, items int) {
	for item := range items {
		at := time.Now()
		if item%2 == 1 {
			at = at.Add(time.Duration(rand.IntN(200)) * time.Microsecond)
		}
		tb.publish(key, at)
		if item%100 == 0 {
			n.BroadcastAll(notify.ByTimer)
		} else {
			n.Announce(at, notify.ByTimer, key)
		}
		select {
		case <-tb.taken[key]:
		case <-ctx.Done():
			assert.Fail(t, "a wake was lost", "item %d of key %d, due at %s, was not taken", item, key, at)
			return
		}
	}
}

func waitForItems(ctx context.Context, n *notify.Notifier[int], tb *table, keys ...int) {
	for ctx.Err() == nil {
		ticket := n.Ticket(keys...)
		if found, next := tb.look(keys); !found {
			for key, at := range next {
				n.Announce(at, notify.ByTimer, key)
			}
			select {
			case <-ticket.C():
			case <-ctx.Done():
			}
		}
		ticket.Close()
	}
}

// TestTicketsCanCloseDuringAWake wakes many tickets. As soon as the first ticket has
// woken, it closes all of them from the last to the first. At that time all tickets
// are removed and most are not woken yet. All of them must still wake.
func TestTicketsCanCloseDuringAWake(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(n *notify.Notifier[int]){
		"one key": func(n *notify.Notifier[int]) { n.Announce(time.Now(), notify.ByTimer, 1) },
		"timer":   func(n *notify.Notifier[int]) { n.Announce(time.Now().Add(time.Millisecond), notify.ByTimer, 1) },
		"all":     func(n *notify.Notifier[int]) { n.BroadcastAll(notify.ByTimer) },
		"close":   func(n *notify.Notifier[int]) { n.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				n := notify.New[int]()
				tickets := manyTickets(n)
				var waking sync.WaitGroup
				waking.Go(func() { wake(n) })
				<-tickets[0].C()
				for _, ticket := range slices.Backward(tickets) {
					ticket.Close()
				}
				for _, ticket := range tickets {
					<-ticket.C()
				}
				waking.Wait()
				requireNothingKept(t, n)
				n.Close()
			}
		})
	}
}

// TestCloseWaitsForTheTimer closes while the timer function wakes tickets. When Close
// returns, all tickets have woken.
func TestCloseWaitsForTheTimer(t *testing.T) {
	t.Parallel()
	for range 20 {
		n := notify.New[int]()
		tickets := manyTickets(n)
		n.Announce(time.Now().Add(time.Millisecond), notify.ByTimer, 1)
		<-tickets[0].C()
		n.Close()
		require.True(t, woken(tickets[len(tickets)-1]))
	}
}

// TestCloseRacesWithTheTimer closes before, at and after the scheduled instants.
func TestCloseRacesWithTheTimer(t *testing.T) {
	t.Parallel()
	for range 200 {
		n := notify.New[int]()
		tickets := make([]*notify.Ticket[int], 20)
		now := time.Now()
		for key := range tickets {
			tickets[key] = n.Ticket(key)
			n.Announce(now.Add(time.Duration(key)*time.Microsecond), notify.ByTimer, key)
		}
		var closing sync.WaitGroup
		closing.Go(n.Close)
		closing.Go(n.Close)
		closing.Wait()
		for key, ticket := range tickets {
			require.True(t, woken(ticket), "key %d", key)
		}
		requireNothingKept(t, n)
	}
}

// manyTickets takes so many tickets of key 1 that waking them takes a while.
func manyTickets(n *notify.Notifier[int]) []*notify.Ticket[int] {
	tickets := make([]*notify.Ticket[int], 10_000)
	for i := range tickets {
		tickets[i] = n.Ticket(1)
	}
	return tickets
}
