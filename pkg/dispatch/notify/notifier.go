package notify

import (
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/heap"
)

// Notifier wakes the tickets of a key. It is safe for concurrent use. None of its
// methods blocks on a waiter.
type Notifier[K comparable] struct {
	mu      sync.Mutex
	closed  bool
	entries map[K]*entry[K]      // the keys that have tickets; made when needed
	all     list[K]              // every ticket, including those without keys
	tickets uint64               // tickets taken since New
	due     heap.Heap[*entry[K]] // the entries with a scheduled instant
	timer   *time.Timer          // fires at armed; made when needed
	armed   time.Time            // zero: the timer is not set
	timed   uint64               // tickets woken by the timer
	firings sync.WaitGroup       // runs of the timer function that are set or under way
}

// New returns a Notifier. Close releases its timer.
func New[K comparable]() *Notifier[K] { return &Notifier[K]{} }

// Announce says that a look for one of the keys finds something that one waiter can take. The look finds it at the given
// instant or later.
//
// If at is not in the future, Announce wakes all shared tickets of the keys and one exclusive ticket. It returns the number of
// woken tickets. The exclusive ticket is the first ticket of the first key with exclusive tickets. If at is in the future,
// Announce returns 0 and schedules a wake for each key. The timer then wakes the tickets that the key has at that time. Of
// several instants of a key only the earliest is kept. Announce ignores a key without tickets.
//
// Publish before you call Announce. Announce does not block.
func (n *Notifier[K]) Announce(at time.Time, cause string, keys ...K) int {
	woken := n.announceLocking(at, cause, keys)
	wake(woken)
	return len(woken)
}

// announceLocking removes and returns the tickets to wake now.
func (n *Notifier[K]) announceLocking(at time.Time, cause string, keys []K) []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	wait := at.Sub(now)
	var woken []*Ticket[K]
	served := false
	for _, key := range keys {
		e := n.entries[key]
		switch {
		case e == nil:
		case wait > 0:
			// An instant from a database has no monotonic reading. Adding to now gives it one, so that all instants compare, and
			// setting the wall clock moves no instant.
			n.scheduleLocked(e, now.Add(wait))
		default:
			woken = n.takeLocked(woken, &e.shared, Wake[K]{Cause: cause})
			if !served && len(e.exclusive.refs) > 0 {
				served = true
				woken = n.takeTicketLocked(woken, e.exclusive.refs[0].ticket, Wake[K]{Cause: cause, Keys: slices.Clone(keys)})
			}
		}
	}
	n.armLocked()
	return woken
}

// AnnounceEach wakes the shared tickets of the keys now, and one exclusive ticket of each kind. All tickets with the same first
// key are one kind.
//
// It examines every ticket of the keys. It returns the number of woken tickets.
func (n *Notifier[K]) AnnounceEach(cause string, keys ...K) int {
	woken := n.announceEachLocking(cause, keys)
	wake(woken)
	return len(woken)
}

// announceEachLocking removes and returns the tickets to wake now.
func (n *Notifier[K]) announceEachLocking(cause string, keys []K) []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	var woken []*Ticket[K]
	firsts := map[*entry[K]]*Ticket[K]{} // by the entry of the first key
	for _, key := range keys {
		e := n.entries[key]
		if e == nil {
			continue
		}
		woken = n.takeLocked(woken, &e.shared, Wake[K]{Cause: cause})
		for _, r := range e.exclusive.refs {
			kind := r.ticket.memberships[firstKey].list.entry
			if first := firsts[kind]; first == nil || r.ticket.before(first) {
				firsts[kind] = r.ticket
			}
		}
	}
	for kind, ticket := range firsts {
		woken = n.takeTicketLocked(woken, ticket, Wake[K]{Cause: cause, Keys: []K{kind.key}})
	}
	n.armLocked()
	return woken
}

// Extend gives the exclusive tickets of key more keys. It does not block. The first call for a pair of keys examines all
// exclusive tickets of both keys.
//
// Extend does not change later tickets of key. The waiter of a later ticket looks after it takes the ticket, so it finds the new
// key itself.
func (n *Notifier[K]) Extend(key K, more ...K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[key]
	if e == nil || len(e.exclusive.refs) == 0 {
		return
	}
	for _, k := range more {
		if k == key || e.extended[k] {
			continue
		}
		n.extendLocked(e, k)
		if len(e.extended) >= len(n.entries) {
			clear(e.extended) // some of these keys have no tickets any more
		}
		if e.extended == nil {
			e.extended = map[K]bool{}
		}
		e.extended[k] = true
	}
}

func (n *Notifier[K]) extendLocked(e *entry[K], k K) {
	other := n.entryLocked(k)
	there := make(map[*Ticket[K]]bool, len(other.exclusive.refs))
	for _, r := range other.exclusive.refs {
		there[r.ticket] = true
	}
	for _, r := range e.exclusive.refs {
		if !there[r.ticket] {
			other.exclusive.add(r.ticket)
		}
	}
}

// CountExclusive returns how many exclusive tickets key has.
func (n *Notifier[K]) CountExclusive(key K) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.entries[key]; e != nil {
		return len(e.exclusive.refs)
	}
	return 0
}

// First returns the exclusive ticket that Announce would wake for key, or nil if no ticket is idle.
func (n *Notifier[K]) First(key K) *Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.entries[key]; e != nil && len(e.exclusive.refs) > 0 && e.exclusive.refs[0].ticket.idle {
		return e.exclusive.refs[0].ticket
	}
	return nil
}

// Broadcast wakes every ticket of the key now, and returns their number. It does not block.
func (n *Notifier[K]) Broadcast(cause string, key K) int {
	n.mu.Lock()
	var woken []*Ticket[K]
	if e := n.entries[key]; e != nil {
		woken = n.takeLocked(woken, &e.exclusive, Wake[K]{Cause: cause})
		woken = n.takeLocked(woken, &e.shared, Wake[K]{Cause: cause})
		n.armLocked()
	}
	n.mu.Unlock()
	wake(woken)
	return len(woken)
}

// BroadcastAll wakes every ticket of every key now, and returns the number of tickets. Use it when announcements may have been
// lost. It does not block.
func (n *Notifier[K]) BroadcastAll(cause string) int {
	n.mu.Lock()
	woken := n.takeAllLocked(cause)
	n.mu.Unlock()
	wake(woken)
	return len(woken)
}

// Close wakes every ticket, drops every scheduled instant and stops the timer. If the timer function is running, Close waits for
// it. The timer function waits only for the lock. Further calls do nothing.
//
// After Close, announcements do nothing and a new ticket never wakes. Waiters need another signal
// that ends their waiting.
func (n *Notifier[K]) Close() {
	n.mu.Lock()
	n.closed = true
	woken := n.takeAllLocked("")
	n.mu.Unlock()
	wake(woken)
	n.firings.Wait()
}

// takeLocked removes the tickets of l and appends them to woken. The caller arms
// the timer, releases the lock and wakes the tickets.
func (n *Notifier[K]) takeLocked(woken []*Ticket[K], l *list[K], why Wake[K]) []*Ticket[K] {
	first := len(woken)
	woken = slices.Grow(woken, len(l.refs))
	for _, r := range l.refs {
		r.ticket.wake = why
		woken = append(woken, r.ticket)
	}
	for _, ticket := range woken[first:] {
		n.removeLocked(ticket)
	}
	return woken
}

// takeTicketLocked is like takeLocked for one ticket.
func (n *Notifier[K]) takeTicketLocked(woken []*Ticket[K], ticket *Ticket[K], why Wake[K]) []*Ticket[K] {
	ticket.wake = why
	n.removeLocked(ticket)
	return append(woken, ticket)
}

// takeAllLocked removes and returns all tickets. The caller releases the lock and wakes them.
func (n *Notifier[K]) takeAllLocked(cause string) []*Ticket[K] {
	woken := make([]*Ticket[K], 0, len(n.all.refs))
	for _, r := range n.all.refs {
		r.ticket.memberships, r.ticket.wake = nil, Wake[K]{Cause: cause}
		woken = append(woken, r.ticket)
	}
	n.resetLocked()
	n.armLocked()
	return woken
}

// resetLocked drops all tickets and frees their memory: a map or slice does not shrink by itself.
func (n *Notifier[K]) resetLocked() {
	n.entries, n.all.refs, n.due = nil, nil, nil
}

// wake closes the channels of removed tickets. The caller does not hold the lock, so that 10,000 waiters that resume do not
// contend for it.
func wake[K comparable](tickets []*Ticket[K]) {
	for _, ticket := range tickets {
		close(ticket.c)
	}
}

// due is the scheduled instant of an entry and its place in the heap.
type due struct {
	at    time.Time
	place int // 0: no instant is scheduled
}

// scheduleLocked makes e wake at the given instant. If an earlier wake is scheduled, it keeps the earlier wake. No wake is lost,
// because at the earlier instant a waiter looks and announces again.
func (n *Notifier[K]) scheduleLocked(e *entry[K], at time.Time) {
	if e.due.place == 0 || at.Before(e.due.at) {
		e.due.at = at
		n.due.Put(e)
	}
	n.armLocked()
}

// armLocked sets the timer to the earliest instant, or stops the timer if no instant
// is left. It does nothing if the timer is set to that instant or fires for it.
//
// Stop and Reset report whether they cancelled a firing, so firings counts exactly
// the calls of fire that happen. A call of fire takes the lock before it counts
// down, so it never counts down before armLocked counts up.
func (n *Notifier[K]) armLocked() {
	next := n.nextLocked()
	if next.Equal(n.armed) {
		return
	}
	n.armed = next
	switch {
	case next.IsZero():
		if n.timer.Stop() {
			n.firings.Done()
		}
	case n.timer == nil:
		n.firings.Add(1)
		n.timer = time.AfterFunc(time.Until(next), n.fire)
	case !n.timer.Reset(time.Until(next)):
		n.firings.Add(1)
	}
}

// nextLocked returns the earliest instant, or zero.
func (n *Notifier[K]) nextLocked() time.Time {
	if len(n.due) == 0 {
		return time.Time{}
	}
	return n.due[0].due.at
}

// fire is the timer function. The timer calls it in a new goroutine. Close waits for it.
func (n *Notifier[K]) fire() {
	defer n.firings.Done()
	wake(n.takeDue())
}

// takeDue removes and returns the tickets to wake of all keys that are due.
func (n *Notifier[K]) takeDue() []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	var woken []*Ticket[K]
	for now := time.Now(); len(n.due) > 0 && !n.due[0].due.at.After(now); {
		e := n.due[0]
		n.due.Remove(e)
		woken = n.takeLocked(woken, &e.shared, Wake[K]{Cause: ByTimer})
		if len(e.exclusive.refs) > 0 {
			woken = n.takeTicketLocked(woken, e.exclusive.refs[0].ticket, Wake[K]{Cause: ByTimer, Keys: []K{e.key}})
		}
	}
	n.timed += uint64(len(woken))
	n.armLocked()
	return woken
}

// Before implements heap.Element: the earliest instant is first.
func (e *entry[K]) Before(other *entry[K]) bool { return e.due.at.Before(other.due.at) }

// Place implements heap.Element.
func (e *entry[K]) Place() *int { return &e.due.place }

// Instant is a scheduled wake of a key.
type Instant[K comparable] struct {
	Key K
	At  time.Time
}

// Due returns the limit earliest scheduled instants, earliest first, or nil if nothing is scheduled. It copies and sorts all
// scheduled instants, so it is for status pages and not for requests.
func (n *Notifier[K]) Due(limit int) []Instant[K] {
	n.mu.Lock()
	var instants []Instant[K]
	for _, e := range n.due {
		instants = append(instants, Instant[K]{Key: e.key, At: e.due.at})
	}
	n.mu.Unlock()
	slices.SortFunc(instants, func(a, b Instant[K]) int { return a.At.Compare(b.At) })
	return instants[:min(max(0, limit), len(instants))]
}

// WokenByTimer returns the number of tickets that the timer has woken since New. Metrics need it, because the timer function has
// no caller that could count.
func (n *Notifier[K]) WokenByTimer() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.timed
}
