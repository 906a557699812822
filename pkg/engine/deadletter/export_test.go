package deadletter

import "time"

// CountBy sets the number of dead letters that one statement of a count examines.
func (l *Letters) CountBy(n int64) { l.countSize = n }

// Bound sets the page size and the time budget, so that a test can reach these limits.
func (l *Letters) Bound(pageSize int64, budget time.Duration) {
	l.pageSize, l.budget = pageSize, budget
}
