package readiness

// Closed returns the number of targets of a group that SetLimited has closed since the last lease of the group ended.
func (t *Tracker) Closed(group int64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.limitOf(group).closed)
}
