package deadletter

import "time"

// Bound makes pages and time so small that a test meets the bounds.
func (l *Letters) Bound(page int64, budget time.Duration) { l.page, l.budget = page, budget }
