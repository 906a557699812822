// Package contention remembers the cursors that another session was found to hold for long.
//
// Group commit must not wait for such a cursor: all other calls in the same flush would wait with
// it. A call that touches a remembered cursor skips the flush and waits by itself. The package is in
// memory and is only a hint: a flush finds out by SQL who holds what. It is imported by the other
// packages below pkg/engine/store.
package contention

import (
	"iter"
	"sync"
	"time"
)

const (
	// Patience is how long a call waits for contended cursors, from its first wait on. Only a SQL
	// consumer holds a cursor for longer: it holds the cursor until its transaction ends.
	Patience = 2 * time.Second
	// maxCursors bounds the cache. A cursor beyond it is found contended again by each flush.
	maxCursors = 10_000
)

// Cursor names the cursor of a consumer group in a partition.
type Cursor struct {
	Partition int64
	Group     string
}

// Cache remembers each contended cursor for Patience, or until a session gets its lock. It is safe
// for concurrent use.
type Cache struct {
	mu    sync.Mutex
	until map[Cursor]time.Time
	// last is the latest instant in until.
	last time.Time
}

// New returns an empty Cache.
func New() *Cache { return &Cache{until: map[Cursor]time.Time{}} }

// Learn removes the cursors whose lock was got and adds the contended ones.
func (c *Cache) Learn(got, contended []Cursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked()
	for _, cursor := range got {
		delete(c.until, cursor)
	}
	for _, cursor := range contended {
		if len(c.until) < maxCursors {
			c.last = time.Now().Add(Patience)
			c.until[cursor] = c.last
		}
	}
}

// expireLocked empties the cache when all its entries are over.
func (c *Cache) expireLocked() {
	if len(c.until) > 0 && time.Now().After(c.last) {
		clear(c.until)
	}
}

// First returns the first of cursors that is contended; ok is false when none is.
func (c *Cache) First(cursors iter.Seq[Cursor]) (contended Cursor, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked()
	if len(c.until) == 0 {
		return Cursor{}, false
	}
	now := time.Now()
	for cursor := range cursors {
		if now.Before(c.until[cursor]) {
			return cursor, true
		}
	}
	return Cursor{}, false
}
