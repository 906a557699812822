package notify

// Kept returns the memory that the Notifier holds for tickets, keys and instants,
// and whether its timer is set. All of it is zero if no ticket is open.
func (n *Notifier[K]) Kept() (tickets, keys, instants int, armed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cap(n.all.tickets), len(n.entries), cap(n.due), !n.armed.IsZero()
}
