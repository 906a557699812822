package names

import (
	"context"
	"fmt"
	"sync"
)

// keyedMutex is a mutex for each key. It keeps callers from holding a database connection each while
// they wait for the lock of the same row: only one of them holds a connection. The zero keyedMutex is
// ready to use.
type keyedMutex struct {
	mu sync.Mutex
	// locked holds, by key, the channel that the holder closes when it unlocks.
	locked map[string]chan struct{}
}

// Lock waits until nobody holds key and then holds it until unlock is called. It fails only when
// ctx ends.
func (m *keyedMutex) Lock(ctx context.Context, key string) (unlock func(), err error) {
	for !m.tryLock(key) {
		if err := m.Wait(ctx, key); err != nil {
			return nil, err
		}
	}
	return func() { m.unlock(key) }, nil
}

// Wait waits until the present holder of key unlocks it. It fails only when ctx ends.
func (m *keyedMutex) Wait(ctx context.Context, key string) error {
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

func (m *keyedMutex) tryLock(key string) (ok bool) {
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

func (m *keyedMutex) unlock(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.locked[key])
	delete(m.locked, key)
}
