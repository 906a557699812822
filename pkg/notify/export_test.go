package notify

// Kept returns how much the Notifier holds for tickets and keys, all of it zero
// when nobody waits, and whether its timer is set.
func (n *Notifier[K]) Kept() (tickets, keys, instants int, armed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cap(n.all.members), len(n.entries), cap(n.due), !n.armed.IsZero()
}
