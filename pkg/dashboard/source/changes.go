package source

import (
	"sync"
	"sync/atomic"
)

// Changes counts changes. The server calls Changed after an event, and a dashboard waits for the next change with After.
// The zero value is ready to use.
type Changes struct {
	count atomic.Uint64
	// waiting is true while a dashboard waits. Otherwise Changed needs no lock.
	waiting atomic.Bool
	mu      sync.Mutex
	// next is closed by the next change. It is nil if no dashboard waits. mu guards next.
	next chan struct{}
}

// Changed reports that figures may have changed. It does not block.
func (c *Changes) Changed() {
	c.count.Add(1)
	if !c.waiting.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting.Store(false)
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Count returns the number of changes so far.
func (c *Changes) Count() uint64 { return c.count.Load() }

// After returns a channel that is closed when Count is greater than count.
func (c *Changes) After(count uint64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	next := c.next
	c.waiting.Store(true)
	if c.count.Load() > count { // a concurrent Changed may have read waiting before it was set
		c.waiting.Store(false)
		close(next)
		c.next = nil
	}
	return next
}
