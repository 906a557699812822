package store

import (
	"context"
	"fmt"
	"sync"
)

// turnstile lets one caller at a time do what a queue allows only once at a time
// anyway. Forty consumers that begin together would else hold forty connections,
// most of them waiting for the lock of one row. The zero turnstile is ready.
type turnstile struct {
	mu sync.Mutex
	// inside holds, by queue, what is closed when the caller inside leaves.
	inside map[string]chan struct{}
}

// enter waits until nobody else of the same queue is inside, or ctx ends, which
// is the only error.
func (t *turnstile) enter(ctx context.Context, queueName string) (leave func(), err error) {
	for {
		left, entered := t.try(queueName)
		if entered {
			return func() { t.leave(queueName) }, nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for others that join queue %q: %w", queueName, ctx.Err())
		}
	}
}

// wait waits until nobody is inside for a queue, or ctx ends, which is the only
// error. Who creates partitions waits for who joins: a row that many lock in
// share mode, one after the other, is never free for the one who wants it alone.
func (t *turnstile) wait(ctx context.Context, queueName string) error {
	t.mu.Lock()
	left, taken := t.inside[queueName]
	t.mu.Unlock()
	if !taken {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a consumer group that joins queue %q: %w", queueName, ctx.Err())
	}
}

func (t *turnstile) try(queueName string) (left <-chan struct{}, entered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left, taken := t.inside[queueName]; taken {
		return left, false
	}
	if t.inside == nil {
		t.inside = map[string]chan struct{}{}
	}
	t.inside[queueName] = make(chan struct{})
	return nil, true
}

func (t *turnstile) leave(queueName string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.inside[queueName])
	delete(t.inside, queueName)
}
