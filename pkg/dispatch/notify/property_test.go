package notify_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

// step is one call of a Notifier. Times are whole seconds since the start, so that instants coincide.
type step struct {
	verb    string // "ticket", "exclusive", "idle", "busy", "accept", "close", "broadcast", "announce", "each", "extend", "all", "advance"
	keys    []int  // "ticket", "exclusive", "announce", "each"; "broadcast" has one, "extend" two
	ticket  int    // "idle", "busy", "accept", "close": the number of the ticket
	seconds int    // "announce": from now, may be negative; "advance"; "exclusive": the deadline
}

func (s step) String() string {
	return fmt.Sprintf("%s keys=%v ticket=%d seconds=%d", s.verb, s.keys, s.ticket, s.seconds)
}

const propertyKeys = 3

var steps = rapid.Custom(func(t *rapid.T) step {
	key := rapid.IntRange(0, propertyKeys-1)
	s := step{verb: rapid.SampledFrom([]string{
		"ticket", "ticket", "exclusive", "exclusive", "exclusive", "exclusive", "idle", "idle", "busy", "accept", "close", "close", "close",
		"broadcast", "announce", "announce", "announce", "announce", "announce", "announce", "announce", "each", "each", "extend", "extend", "all", "advance", "advance",
	}).Draw(t, "verb")}
	switch s.verb {
	case "ticket":
		s.keys = rapid.SliceOfN(key, 0, 3).Draw(t, "keys")
	case "exclusive":
		s.keys = rapid.SliceOfN(key, 0, 3).Draw(t, "keys")
		s.seconds = rapid.IntRange(0, 3).Draw(t, "deadline")
	case "each":
		s.keys = rapid.SliceOfNDistinct(key, 1, 2, rapid.ID).Draw(t, "keys")
	case "extend":
		s.keys = rapid.SliceOfN(key, 2, 2).Draw(t, "keys")
	case "idle", "busy", "accept", "close":
		s.ticket = rapid.IntRange(0, 30).Draw(t, "ticket")
	case "broadcast":
		s.keys = []int{key.Draw(t, "key")}
	case "announce":
		s.keys = rapid.SliceOfNDistinct(key, 1, 2, rapid.ID).Draw(t, "keys")
		s.seconds = rapid.IntRange(-4, 12).Draw(t, "seconds")
	case "advance":
		s.seconds = rapid.IntRange(1, 6).Draw(t, "seconds")
	}
	return s
})

// history is the observable behaviour of a Notifier.
type history struct {
	Woke    map[int]int // ticket to the second it woke; missing: it did not wake
	Returns []int       // of each announcement
	Seen    []string    // after each step: tickets, keys, instants, and the first idle ticket of each key
}

func seen(tickets, keys int, due []string, first [propertyKeys]int) string {
	return fmt.Sprintf("tickets=%d keys=%d due=%v first=%v", tickets, keys, due, first)
}

// TestNotifierBehavesLikeTheModel makes the same calls to a Notifier in fake time and
// to the model below. Both must wake the same tickets at the same instants.
func TestNotifierBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// rt is used only outside the bubble, which runs in another goroutine.
		drawn := rapid.SliceOfN(steps, 30, 90).Draw(rt, "steps")
		var got history
		synctest.Test(t, func(*testing.T) { got = perform(drawn) })
		require.Equal(rt, expect(drawn), got)
	})
}

// instantOf returns an instant for the key. Two keys never have the same instant. Otherwise the test could not know which key
// wakes a ticket that has both keys.
func instantOf(now time.Time, seconds, key int) time.Time {
	return now.Add(time.Duration(seconds)*time.Second - time.Duration(propertyKeys-key))
}

// secondOf returns the seconds since started that instantOf was called with.
func secondOf(started, at time.Time) int {
	return int((at.Sub(started) + propertyKeys) / time.Second)
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
	watch := func(ticket *notify.Ticket[int]) {
		number := len(tickets)
		tickets = append(tickets, ticket)
		go func() {
			select {
			case <-ticket.C():
				mu.Lock()
				h.Woke[number] = secondOf(started, time.Now())
				mu.Unlock()
			case <-ended:
			}
		}()
	}
	for _, s := range drawn {
		switch {
		case s.verb == "ticket":
			watch(n.Ticket(s.keys...))
		case s.verb == "exclusive":
			watch(n.Exclusive(started.Add(time.Duration(s.seconds)*time.Second), s.keys...))
		case s.verb == "broadcast":
			h.Returns = append(h.Returns, n.Broadcast(notify.ByTimer, s.keys[0]))
		case s.verb == "announce" && s.seconds <= 0:
			h.Returns = append(h.Returns, n.Announce(time.Now(), notify.ByTimer, s.keys...))
		case s.verb == "announce":
			for _, key := range s.keys {
				h.Returns = append(h.Returns, n.Announce(instantOf(time.Now(), s.seconds, key), notify.ByTimer, key))
			}
		case s.verb == "each":
			h.Returns = append(h.Returns, n.AnnounceEach(notify.ByTimer, s.keys...))
		case s.verb == "extend":
			n.Extend(s.keys[0], s.keys[1])
		case s.verb == "all":
			h.Returns = append(h.Returns, n.BroadcastAll(notify.ByTimer))
		case s.verb == "advance":
			<-time.After(time.Duration(s.seconds) * time.Second)
		case s.ticket >= len(tickets):
		case s.verb == "idle", s.verb == "busy":
			tickets[s.ticket].SetIdle(s.verb == "idle")
		case s.verb == "accept" && woken(tickets[s.ticket]):
			tickets[s.ticket].Accept()
		case s.verb == "close":
			tickets[s.ticket].Close()
		}
		synctest.Wait()
		var due []string
		for _, instant := range n.Due(100) {
			due = append(due, fmt.Sprintf("%d@%d", instant.Key, secondOf(started, instant.At)))
		}
		slices.Sort(due)
		waiting, keys := n.Waiting()
		var first [propertyKeys]int
		for key := range first {
			first[key] = slices.Index(tickets, n.First(key))
		}
		h.Seen = append(h.Seen, seen(waiting, keys, due, first))
	}
	close(ended)
	synctest.Wait()
	n.Close()
	return h
}

// model is a list of tickets, and the earliest scheduled instant of each key. It has no heap.
type model struct {
	now      int
	tickets  []*modelTicket
	schedule map[int]int // key to second
	woke     map[int]int
	extended map[[2]int]bool
}

type modelTicket struct {
	number           int
	keys             []int
	waiting          bool
	exclusive, idle  bool
	deadline         int
	wakes            []int // the keys of its wake, which it forwards when it closes
	accepted, closed bool
}

func expect(drawn []step) history {
	m := model{woke: map[int]int{}, schedule: map[int]int{}, extended: map[[2]int]bool{}}
	h := history{Woke: m.woke}
	for _, s := range drawn {
		switch {
		case s.verb == "ticket", s.verb == "exclusive":
			m.tickets = append(m.tickets, &modelTicket{
				number: len(m.tickets), keys: s.keys, waiting: true, exclusive: s.verb == "exclusive", deadline: s.seconds,
			})
		case s.verb == "announce" && s.seconds > 0:
			for _, key := range s.keys {
				h.Returns = append(h.Returns, 0)
				m.plan(key, m.now+s.seconds)
			}
		case s.verb == "broadcast":
			h.Returns = append(h.Returns, m.wake(func(t *modelTicket) bool { return slices.Contains(t.keys, s.keys[0]) }))
		case s.verb == "announce":
			h.Returns = append(h.Returns, m.announce(s.keys))
		case s.verb == "each":
			h.Returns = append(h.Returns, m.announceEach(s.keys))
		case s.verb == "extend":
			m.extend(s.keys[0], s.keys[1])
		case s.verb == "all":
			h.Returns = append(h.Returns, m.wake(func(*modelTicket) bool { return true }))
		case s.verb == "advance":
			for range s.seconds {
				m.now++
				m.wakeDue()
			}
		case s.ticket >= len(m.tickets):
		case s.verb == "idle", s.verb == "busy":
			m.tickets[s.ticket].idle = s.verb == "idle"
		case s.verb == "accept":
			m.tickets[s.ticket].accepted = m.tickets[s.ticket].accepted || m.hasWoken(s.ticket)
		case s.verb == "close":
			m.close(m.tickets[s.ticket])
		}
		m.forget()
		h.Seen = append(h.Seen, m.seen())
	}
	return h
}

func (m *model) hasWoken(number int) bool {
	_, woke := m.woke[number]
	return woke
}

func (m *model) close(t *modelTicket) {
	t.waiting = false
	if t.wakes != nil && !t.accepted && !t.closed {
		m.announce(t.wakes)
	}
	t.closed = true
}

// plan keeps the earliest instant of a key that has tickets.
func (m *model) plan(key, at int) {
	if earlier, some := m.schedule[key]; m.waiting(key) > 0 && (!some || at < earlier) {
		m.schedule[key] = at
	}
}

func (m *model) wake(which func(*modelTicket) bool) int {
	count := 0
	for _, t := range m.tickets {
		if t.waiting && which(t) {
			t.waiting = false
			m.woke[t.number] = m.now
			count++
		}
	}
	return count
}

// announce wakes the shared tickets of the keys, and the first exclusive ticket of the first key with exclusive tickets.
func (m *model) announce(keys []int) int {
	count := m.wake(func(t *modelTicket) bool {
		return !t.exclusive && slices.ContainsFunc(keys, func(key int) bool { return slices.Contains(t.keys, key) })
	})
	for _, key := range keys {
		if first := m.firstExclusive(key); first != nil {
			first.wakes = keys
			return count + m.wake(func(t *modelTicket) bool { return t == first })
		}
	}
	return count
}

// announceEach wakes the shared tickets of the keys. Of the exclusive tickets with the same first key, it wakes the first.
func (m *model) announceEach(keys []int) int {
	concerned := func(t *modelTicket) bool {
		return slices.ContainsFunc(keys, func(key int) bool { return slices.Contains(t.keys, key) })
	}
	count := m.wake(func(t *modelTicket) bool { return !t.exclusive && concerned(t) })
	for kind := range propertyKeys {
		first := m.first(func(t *modelTicket) bool { return concerned(t) && t.keys[0] == kind })
		if first != nil {
			first.wakes = []int{kind}
			count += m.wake(func(t *modelTicket) bool { return t == first })
		}
	}
	return count
}

// extend gives the exclusive tickets of key one more key. While key has tickets, a repeated call does nothing.
func (m *model) extend(key, more int) {
	if m.extended[[2]int{key, more}] || m.firstExclusive(key) == nil {
		return
	}
	m.extended[[2]int{key, more}] = true
	for _, t := range m.tickets {
		if t.waiting && t.exclusive && slices.Contains(t.keys, key) {
			t.keys = append(slices.Clone(t.keys), more)
		}
	}
}

func (m *model) firstExclusive(key int) *modelTicket {
	return m.first(func(t *modelTicket) bool { return slices.Contains(t.keys, key) })
}

func (m *model) first(which func(*modelTicket) bool) *modelTicket {
	var list []*modelTicket
	for _, t := range m.tickets {
		if t.waiting && t.exclusive && which(t) {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil
	}
	rank := func(t *modelTicket) int {
		if t.idle {
			return 0
		}
		return 1
	}
	return slices.MinFunc(list, func(a, b *modelTicket) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.number, b.number))
	})
}

// wakeDue wakes the keys that are due, one after the other.
func (m *model) wakeDue() {
	for key := range propertyKeys {
		m.forget()
		if at, some := m.schedule[key]; some && at <= m.now {
			delete(m.schedule, key)
			m.announce([]int{key})
		}
	}
	m.forget()
}

// forget drops the instants and extensions of keys without tickets.
func (m *model) forget() {
	for keys := range m.extended {
		if m.waiting(keys[0]) == 0 {
			delete(m.extended, keys)
		}
	}
	for key := range m.schedule {
		if m.waiting(key) == 0 {
			delete(m.schedule, key)
		}
	}
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
	var due []string
	for key, at := range m.schedule {
		due = append(due, fmt.Sprintf("%d@%d", key, at))
	}
	slices.Sort(due)
	var first [propertyKeys]int
	for key := range first {
		first[key] = -1
		if t := m.firstExclusive(key); t != nil && t.idle {
			first[key] = t.number
		}
	}
	return seen(tickets, len(keys), due, first)
}
