package readiness

import (
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

// Notifications wake waiters at once as long as at most notifiedBurst wakes were spurious, and one more
// each notifiedInterval. After that they wake waiters at most once in notifiedInterval. Healthy instances cause
// spurious wakes too: each hears up to 100 notifications a second from each other one, and often
// another instance is faster.
const (
	notifiedInterval = 2 * time.Millisecond
	notifiedBurst    = 500
)

// notifiedPace decides when notifications wake waiters. It is safe for concurrent use.
type notifiedPace struct {
	mu   sync.Mutex
	pace backoff.Pace
	// next is the latest instant that was given out. All notifications before it share it.
	next time.Time
}

func newNotifiedPace() *notifiedPace {
	return &notifiedPace{pace: backoff.Pace{Interval: notifiedInterval, Burst: notifiedBurst}}
}

// instant returns when the tickets of a notification wake, and counts that as a spurious wake.
func (p *notifiedPace) instant(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.next) {
		p.next = p.pace.Next(now)
	}
	return p.next
}

// giveBack takes back one wake that instant counted: it was not spurious, or nothing woke.
func (p *notifiedPace) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Refund()
}
