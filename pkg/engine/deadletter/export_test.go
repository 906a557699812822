package deadletter

import "time"

// CountBy sets how many dead letters one statement of a count examines.
func (l *Letters) CountBy(n int64) { l.countSize = n }

// Bound sets the page size and the time budget, so that a test reaches them.
func (l *Letters) Bound(pageSize int64, budget time.Duration) {
	l.pageSize, l.budget = pageSize, budget
}
