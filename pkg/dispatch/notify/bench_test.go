package notify_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

// BenchmarkWake measures one announcement to a key with many tickets. The measured time contains no waiters.
func BenchmarkWake(b *testing.B) {
	for _, tickets := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("tickets=%d", tickets), func(b *testing.B) {
			n := notify.New[int]()
			defer n.Close()
			past := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for range tickets {
					n.Ticket(1)
				}
				b.StartTimer()
				if got := n.Announce(past, notify.ByTimer, 1); got != tickets {
					b.Fatalf("woke %d tickets, want %d", got, tickets)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tickets), "ns/ticket")
		})
	}
}

// BenchmarkWakeWaiters has a goroutine per ticket. It measures from the announcement
// until the last goroutine has resumed and closed its ticket.
func BenchmarkWakeWaiters(b *testing.B) {
	const tickets = 10_000
	n := notify.New[int]()
	defer n.Close()
	past := time.Now()
	for b.Loop() {
		b.StopTimer()
		var waiters sync.WaitGroup
		for range tickets {
			ticket := n.Ticket(1)
			waiters.Go(func() {
				<-ticket.C()
				ticket.Close()
			})
		}
		b.StartTimer()
		n.Announce(past, notify.ByTimer, 1)
		waiters.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tickets, "ns/ticket")
}

// BenchmarkWait measures one loop of a waiter among 10,000 others: take a ticket, announce the next instant, close the ticket.
func BenchmarkWait(b *testing.B) {
	n := notify.New[int]()
	defer n.Close()
	future := time.Now().Add(time.Hour)
	for key := range 10_000 {
		n.Ticket(key)
		n.Announce(future.Add(time.Duration(key)), notify.ByTimer, key)
	}
	b.ReportAllocs()
	for b.Loop() {
		ticket := n.Ticket(-1)
		n.Announce(future, notify.ByTimer, -1)
		ticket.Close()
	}
}

// BenchmarkAnnounceWithoutTickets measures the announcement of a push if no request waits.
func BenchmarkAnnounceWithoutTickets(b *testing.B) {
	n := notify.New[int]()
	defer n.Close()
	past := time.Now()
	for b.Loop() {
		n.Announce(past, notify.ByTimer, 1)
	}
}
