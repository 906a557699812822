package readiness

import (
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

// Notifications wake waiters at once as long as at most heardBurst wakes were fruitless, and one more
// each heardInterval. After that they wake waiters at most once in heardInterval. Healthy instances cause
// fruitless wakes too: each hears up to 100 notifications a second from each other one, and often
// another instance is faster.
const (
	heardInterval = 2 * time.Millisecond
	heardBurst    = 500
)

// heardPace decides when notifications wake waiters. It is safe for concurrent use.
type heardPace struct {
	mu   sync.Mutex
	pace backoff.Pace
	// next is the latest instant that was given out. All notifications heard before it share it.
	next time.Time
}

func newHeardPace() *heardPace {
	return &heardPace{pace: backoff.Pace{Interval: heardInterval, Burst: heardBurst}}
}

// instant returns when the tickets of a notification wake, and counts that as a fruitless wake.
func (p *heardPace) instant(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.next) {
		p.next = p.pace.Next(now)
	}
	return p.next
}

// refund takes back one wake that instant counted: it was not fruitless, or nothing woke.
func (p *heardPace) refund() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Refund()
}
