package notify_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/notify"
)

// step is one thing done to a Notifier. Times are seconds since the start, so
// that instants meet.
type step struct {
	verb    string // "ticket", "giveBack", "announce", "all", "advance"
	keys    []int  // "ticket"; "announce" has one
	ticket  int    // "giveBack": the number of the ticket
	seconds int    // "announce": from now, may be negative; "advance"
}

func (s step) String() string {
	return fmt.Sprintf("%s keys=%v ticket=%d seconds=%d", s.verb, s.keys, s.ticket, s.seconds)
}

var steps = rapid.Custom(func(t *rapid.T) step {
	key := rapid.IntRange(0, 4)
	s := step{verb: rapid.SampledFrom([]string{
		"ticket", "ticket", "ticket", "ticket", "giveBack", "announce", "announce", "announce", "announce", "announce",
		"announce", "all", "advance", "advance",
	}).Draw(t, "verb")}
	switch s.verb {
	case "ticket":
		s.keys = rapid.SliceOfN(key, 0, 4).Draw(t, "keys")
	case "giveBack":
		s.ticket = rapid.IntRange(0, 30).Draw(t, "ticket")
	case "announce":
		s.keys = []int{key.Draw(t, "key")}
		s.seconds = rapid.IntRange(-2, 12).Draw(t, "seconds")
	case "advance":
		s.seconds = rapid.IntRange(1, 6).Draw(t, "seconds")
	}
	return s
})

// history is what can be seen of a Notifier.
type history struct {
	Woke    map[int]int // ticket to the second it woke; missing: it did not
	Returns []int       // of each Announce and AnnounceAll
	Seen    []string    // after each step: tickets, keys, instants
}

func seen(tickets, keys int, due []string) string {
	return fmt.Sprintf("tickets=%d keys=%d due=%v", tickets, keys, due)
}

// TestItBehavesLikeANaiveModel does the same to a Notifier in fake time and to
// the model below, and wants the same wakes at the same instants.
func TestItBehavesLikeANaiveModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// Drawn before and compared after: in between another goroutine runs.
		drawn := rapid.SliceOfN(steps, 1, 80).Draw(rt, "steps")
		var got history
		synctest.Test(t, func(*testing.T) { got = perform(drawn) })
		require.Equal(rt, expect(drawn), got)
	})
}

// perform does the steps to a real Notifier, with one goroutine per ticket that
// notes when it woke. It runs in a bubble.
func perform(drawn []step) history {
	var (
		mu      sync.Mutex
		h       = history{Woke: map[int]int{}}
		started = time.Now()
		n       = notify.New[int]()
		tickets []*notify.Ticket[int]
		ended   = make(chan struct{})
	)
	for _, s := range drawn {
		switch s.verb {
		case "ticket":
			number, ticket := len(tickets), n.Ticket(s.keys...)
			tickets = append(tickets, ticket)
			go func() {
				select {
				case <-ticket.C():
					mu.Lock()
					h.Woke[number] = int(time.Since(started) / time.Second)
					mu.Unlock()
				case <-ended:
				}
			}()
		case "giveBack":
			if s.ticket < len(tickets) {
				tickets[s.ticket].Close()
			}
		case "announce":
			h.Returns = append(h.Returns, n.Announce(s.keys[0], time.Now().Add(time.Duration(s.seconds)*time.Second)))
		case "all":
			h.Returns = append(h.Returns, n.AnnounceAll())
		case "advance":
			<-time.After(time.Duration(s.seconds) * time.Second)
		}
		synctest.Wait()
		var due []string
		for _, instant := range n.Due(100) {
			due = append(due, fmt.Sprintf("%d@%d", instant.Key, int(instant.At.Sub(started)/time.Second)))
		}
		slices.Sort(due)
		waiting, keys := n.Waiting()
		h.Seen = append(h.Seen, seen(waiting, keys, due))
	}
	close(ended)
	synctest.Wait()
	n.Close()
	return h
}

// model is a list of tickets and a list of everything ever promised to them. It
// knows no earliest instant per key and no heap.
type model struct {
	now      int
	tickets  []modelTicket
	promises []promise
	woke     map[int]int
}

type modelTicket struct {
	keys    []int
	waiting bool
}

type promise struct{ key, at int }

func expect(drawn []step) history {
	m := model{woke: map[int]int{}}
	h := history{Woke: m.woke}
	for _, s := range drawn {
		switch s.verb {
		case "ticket":
			m.tickets = append(m.tickets, modelTicket{keys: s.keys, waiting: true})
		case "giveBack":
			if s.ticket < len(m.tickets) {
				m.tickets[s.ticket].waiting = false
			}
		case "announce":
			h.Returns = append(h.Returns, m.announce(promise{key: s.keys[0], at: m.now + s.seconds}))
		case "all":
			h.Returns = append(h.Returns, m.wake(func(modelTicket) bool { return true }))
		case "advance":
			for range s.seconds {
				m.now++
				m.keepPromises()
			}
		}
		m.forget()
		h.Seen = append(h.Seen, m.seen())
	}
	return h
}

func (m *model) announce(p promise) int {
	if p.at > m.now {
		m.promises = append(m.promises, p)
		return 0
	}
	return m.wake(func(t modelTicket) bool { return slices.Contains(t.keys, p.key) })
}

func (m *model) wake(which func(modelTicket) bool) int {
	count := 0
	for number, ticket := range m.tickets {
		if ticket.waiting && which(ticket) {
			m.tickets[number].waiting = false
			m.woke[number] = m.now
			count++
		}
	}
	return count
}

// keepPromises wakes the keys whose instants have come. All of them wake at
// once: two keys of one instant may share a ticket.
func (m *model) keepPromises() {
	for _, p := range m.promises {
		if p.at <= m.now {
			m.announce(p)
		}
	}
	m.forget()
}

// forget drops what was promised to keys nobody waits for.
func (m *model) forget() {
	m.promises = slices.DeleteFunc(m.promises, func(p promise) bool { return m.waiting(p.key) == 0 })
}

func (m *model) waiting(key int) int {
	count := 0
	for _, ticket := range m.tickets {
		if ticket.waiting && slices.Contains(ticket.keys, key) {
			count++
		}
	}
	return count
}

func (m *model) seen() string {
	tickets, keys := 0, map[int]bool{}
	for _, ticket := range m.tickets {
		if !ticket.waiting {
			continue
		}
		tickets++
		for _, key := range ticket.keys {
			keys[key] = true
		}
	}
	earliest := map[int]int{}
	for _, p := range m.promises {
		if at, ok := earliest[p.key]; !ok || p.at < at {
			earliest[p.key] = p.at
		}
	}
	var due []string
	for key, at := range earliest {
		due = append(due, fmt.Sprintf("%d@%d", key, at))
	}
	slices.Sort(due)
	return seen(tickets, len(keys), due)
}
