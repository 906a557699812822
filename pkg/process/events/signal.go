package events

import (
	"context"
	"time"
)

const (
	// rereadInterval is the least time between two reads.
	rereadInterval = 100 * time.Millisecond
	// retryInterval is the time until a read that failed is tried again.
	retryInterval = time.Second
)

// Signal wakes one goroutine: it has an element after Set, until the goroutine receives. Several calls of Set before that
// wake it once. It is safe for concurrent use.
type Signal chan struct{}

// NewSignal returns a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal. It does not block.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default: // the receiver has not seen the last one yet, which covers this one
	}
}

// Reread calls read each time the signal is set, until ctx ends. It waits 100 ms between two reads, because every role of the
// database can notify. If a read fails, Reread calls failed, and reads again after a second. It returns nil.
func (s Signal) Reread(ctx context.Context, read func(context.Context) error, failed func(error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s:
		}
		pause := rereadInterval
		if err := read(ctx); err != nil && ctx.Err() == nil {
			failed(err)
			pause = retryInterval
			s.Set()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
