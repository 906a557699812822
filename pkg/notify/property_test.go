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

// step is one call of a Notifier. Times are whole seconds since the start, so that
// instants coincide.
type step struct {
	verb    string // "ticket", "close", "announce", "all", "advance"
	keys    []int  // "ticket"; "announce" has one
	ticket  int    // "close": the number of the ticket
	seconds int    // "announce": from now, may be negative; "advance"
}

func (s step) String() string {
	return fmt.Sprintf("%s keys=%v ticket=%d seconds=%d", s.verb, s.keys, s.ticket, s.seconds)
}

var steps = rapid.Custom(func(t *rapid.T) step {
	key := rapid.IntRange(0, 4)
	s := step{verb: rapid.SampledFrom([]string{
		"ticket", "ticket", "ticket", "ticket", "close", "announce", "announce", "announce", "announce", "announce",
		"announce", "all", "advance", "advance",
	}).Draw(t, "verb")}
	switch s.verb {
	case "ticket":
		s.keys = rapid.SliceOfN(key, 0, 4).Draw(t, "keys")
	case "close":
		s.ticket = rapid.IntRange(0, 30).Draw(t, "ticket")
	case "announce":
		s.keys = []int{key.Draw(t, "key")}
		s.seconds = rapid.IntRange(-2, 12).Draw(t, "seconds")
	case "advance":
		s.seconds = rapid.IntRange(1, 6).Draw(t, "seconds")
	}
	return s
})

// history is the observable behaviour of a Notifier.
type history struct {
	Woke    map[int]int // ticket to the second it woke; missing: it did not wake
	Returns []int       // of each Announce and AnnounceAll
	Seen    []string    // after each step: tickets, keys, instants
}

func seen(tickets, keys int, due []string) string {
	return fmt.Sprintf("tickets=%d keys=%d due=%v", tickets, keys, due)
}

// TestNotifierBehavesLikeTheModel makes the same calls to a Notifier in fake time and
// to the model below. Both must wake the same tickets at the same instants.
func TestNotifierBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// rt is used only outside the bubble, which runs in another goroutine.
		drawn := rapid.SliceOfN(steps, 1, 80).Draw(rt, "steps")
		var got history
		synctest.Test(t, func(*testing.T) { got = perform(drawn) })
		require.Equal(rt, expect(drawn), got)
	})
}

// perform makes the calls to a real Notifier. One goroutine per ticket records when
// the ticket wakes. It runs in a synctest bubble.
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
		case "close":
			if s.ticket < len(tickets) {
				tickets[s.ticket].Close()
			}
		case "announce":
			h.Returns = append(h.Returns, n.Announce(s.keys[0], time.Now().Add(time.Duration(s.seconds)*time.Second), notify.ByTimer))
		case "all":
			h.Returns = append(h.Returns, n.AnnounceAll(notify.ByTimer))
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

// model is a list of tickets and a list of all scheduled instants. It has neither a
// heap nor an earliest instant per key.
type model struct {
	now      int
	tickets  []modelTicket
	schedule []scheduled
	woke     map[int]int
}

type modelTicket struct {
	keys    []int
	waiting bool
}

type scheduled struct{ key, at int }

func expect(drawn []step) history {
	m := model{woke: map[int]int{}}
	h := history{Woke: m.woke}
	for _, s := range drawn {
		switch s.verb {
		case "ticket":
			m.tickets = append(m.tickets, modelTicket{keys: s.keys, waiting: true})
		case "close":
			if s.ticket < len(m.tickets) {
				m.tickets[s.ticket].waiting = false
			}
		case "announce":
			h.Returns = append(h.Returns, m.announce(scheduled{key: s.keys[0], at: m.now + s.seconds}))
		case "all":
			h.Returns = append(h.Returns, m.wake(func(modelTicket) bool { return true }))
		case "advance":
			for range s.seconds {
				m.now++
				m.wakeDue()
			}
		}
		m.forget()
		h.Seen = append(h.Seen, m.seen())
	}
	return h
}

func (m *model) announce(p scheduled) int {
	if p.at > m.now {
		m.schedule = append(m.schedule, p)
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

// wakeDue wakes the keys that are due, all at once: two keys with one instant may
// share a ticket.
func (m *model) wakeDue() {
	for _, p := range m.schedule {
		if p.at <= m.now {
			m.announce(p)
		}
	}
	m.forget()
}

// forget drops the instants of keys without tickets.
func (m *model) forget() {
	m.schedule = slices.DeleteFunc(m.schedule, func(p scheduled) bool { return m.waiting(p.key) == 0 })
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
	for _, p := range m.schedule {
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
