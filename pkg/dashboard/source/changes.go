package source

import "sync"

// Changes counts what happens. The owner of the events calls Changed; dashboards wait for it. The zero
// value is ready to use.
type Changes struct {
	mu    sync.Mutex
	count uint64
	// next is closed by the next change; nil: nobody waits.
	next chan struct{}
}

// Changed says that figures may have changed. It does not block.
func (c *Changes) Changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Count returns the number of changes so far.
func (c *Changes) Count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// After returns a channel that is closed when there were more than count changes.
func (c *Changes) After(count uint64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count > count {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}
