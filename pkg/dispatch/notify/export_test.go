package notify

import "time"

// Kept returns the memory that the Notifier holds for tickets, keys and instants, and whether its timer is set. All results are
// zero if no ticket is open.
func (n *Notifier[K]) Kept() (tickets, keys, instants int, armed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cap(n.all.refs), len(n.entries), cap(n.due), !n.armed.IsZero()
}

// Waiting returns the number of open tickets and the number of their keys.
func (n *Notifier[K]) Waiting() (tickets, keys int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.all.refs), len(n.entries)
}

// Next returns the earliest scheduled instant. It returns false if nothing is
// scheduled.
func (n *Notifier[K]) Next() (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nextLocked(), len(n.due) > 0
}

// Extended returns the number of keys that Extend recorded for the key.
func (n *Notifier[K]) Extended(key K) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.entries[key].extended)
}
