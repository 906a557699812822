package notify_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belfry-mq/belfry/pkg/notify"
)

// BenchmarkWake is one announcement to a key with many tickets, whose waiters
// are not scheduled in the measured time.
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
				if got := n.Announce(1, past); got != tickets {
					b.Fatalf("woke %d tickets, want %d", got, tickets)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tickets), "ns/ticket")
		})
	}
}

// BenchmarkWakeWaiters is the same with a goroutine per ticket, from the
// announcement until the last one has resumed and given its ticket back.
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
		n.Announce(1, past)
		waiters.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tickets, "ns/ticket")
}

// BenchmarkWait is what a waiter pays for one round: take a ticket, announce the
// instant it found, give the ticket back, beside 10,000 others.
func BenchmarkWait(b *testing.B) {
	n := notify.New[int]()
	defer n.Close()
	future := time.Now().Add(time.Hour)
	for key := range 10_000 {
		n.Ticket(key)
		n.Announce(key, future.Add(time.Duration(key)))
	}
	b.ReportAllocs()
	for b.Loop() {
		ticket := n.Ticket(-1)
		n.Announce(-1, future)
		ticket.Close()
	}
}

// BenchmarkAnnounceToNobody is what a push pays when no request waits.
func BenchmarkAnnounceToNobody(b *testing.B) {
	n := notify.New[int]()
	defer n.Close()
	past := time.Now()
	for b.Loop() {
		n.Announce(1, past)
	}
}
