package source

import (
	"sync"
	"sync/atomic"
)

// Changes counts what happens. The owner of the events calls Changed; dashboards wait for it. The zero
// value is ready to use.
type Changes struct {
	count atomic.Uint64
	// waiting says that next is set, so that Changed needs no lock while nobody waits.
	waiting atomic.Bool
	mu      sync.Mutex
	// next is closed by the next change; nil: nobody waits. Under mu.
	next chan struct{}
}

// Changed says that figures may have changed. It does not block.
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

// After returns a channel that is closed when there were more than count changes.
func (c *Changes) After(count uint64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	next := c.next
	c.waiting.Store(true)
	if c.count.Load() > count { // a change that did not see waiting
		c.waiting.Store(false)
		close(next)
		c.next = nil
	}
	return next
}
