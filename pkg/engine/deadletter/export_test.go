package deadletter

import "time"

// Bound sets the page size and the time budget, so that a test can reach these limits.
func (l *Letters) Bound(pageSize int64, budget time.Duration) {
	l.pageSize, l.budget = pageSize, budget
}
