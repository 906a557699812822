// Package keyedmutex is a mutex for each key, with waits that end with their context.
//
// It keeps callers from holding a database connection each while they wait for the lock of the same
// row: they wait here instead, and only one of them holds a connection. It is imported by the other
// rooms below pkg/store.
package keyedmutex

import (
	"context"
	"fmt"
	"sync"
)

// Mutex is a mutex for each key. The zero Mutex is ready to use.
type Mutex struct {
	mu sync.Mutex
	// locked holds, by key, the channel that the holder closes when it unlocks.
	locked map[string]chan struct{}
}

// Lock waits until nobody holds key and then holds it until unlock is called. It fails only when
// ctx ends.
func (m *Mutex) Lock(ctx context.Context, key string) (unlock func(), err error) {
	for !m.tryLock(key) {
		if err := m.Wait(ctx, key); err != nil {
			return nil, err
		}
	}
	return func() { m.unlock(key) }, nil
}

// Wait waits until the present holder of key unlocks it. It fails only when ctx ends.
func (m *Mutex) Wait(ctx context.Context, key string) error {
	m.mu.Lock()
	unlocked, held := m.locked[key]
	m.mu.Unlock()
	if !held {
		return nil
	}
	select {
	case <-unlocked:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the holder of %q: %w", key, ctx.Err())
	}
}

func (m *Mutex) tryLock(key string) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[key] != nil {
		return false
	}
	if m.locked == nil {
		m.locked = map[string]chan struct{}{}
	}
	m.locked[key] = make(chan struct{})
	return true
}

func (m *Mutex) unlock(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.locked[key])
	delete(m.locked, key)
}
