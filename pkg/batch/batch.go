package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The errors of operations that did not happen.
var (
	// ErrClosed: it came after Close.
	ErrClosed = errors.New("the batch manager is closed")
	// ErrWithdrawn: its context ended before it left.
	ErrWithdrawn = errors.New("the operation was still waiting for its turn")
)

// Verdict is what becomes of a batch that failed.
type Verdict int

// The verdicts; see the package doc.
const (
	Fail Verdict = iota
	Split
	Retry
)

// FlushFunc does the operations of a batch. It returns an error by operation
// (nil: all succeeded), or an error of the whole batch: then none of them
// happened, or what happened does not matter to a repetition. It must end by
// itself within a bounded time; ctx only carries values.
type FlushFunc[T any] func(ctx context.Context, ops []T) (each []error, err error)

// Observer is told what happens, under no lock. It must not block.
type Observer interface {
	// Flushed: a flush of so many operations and so much size ended.
	Flushed(ops, size int, took time.Duration)
	// Failed: a flush failed as a whole, and what became of it.
	Failed(Verdict)
}

// Manager commits the operations of many callers together. It is safe for
// concurrent use.
type Manager[T any] struct {
	cfg     Config
	flush   FlushFunc[T]
	judge   func(error) Verdict
	observe Observer
	// alike: a batch holds operations of the same lanes only.
	alike bool

	mu sync.Mutex
	// waiting are the operations that have not left yet, oldest first, and size
	// the sum of their sizes.
	waiting []*op[T]
	size    int
	// blocked are the callers for whom there is no room, first come first.
	blocked []*op[T]
	// inFlight are the batches in flight, and busy their lanes.
	inFlight int
	busy     laneSet
	wait     *time.Timer
	closed   bool
	// empty is closed when the manager is closed and nothing is left.
	empty chan struct{}
}

// op is one operation on its way.
type op[T any] struct {
	value T
	lanes []LockStripe
	size  int
	since time.Time
	state state
	// done receives exactly one outcome.
	done chan error
}

// state is guarded by the manager's mutex.
type state int

const (
	isBlocked state = iota
	isWaiting
	isGone // in flight, answered or withdrawn
)

// New returns a Manager. judge may be nil: then every failed batch is split.
func New[T any](cfg Config, flush FlushFunc[T], judge func(error) Verdict, observe Observer) *Manager[T] {
	if judge == nil {
		judge = func(error) Verdict { return Split }
	}
	return &Manager[T]{cfg: cfg, flush: flush, judge: judge, observe: observe, empty: make(chan struct{})}
}

// SameStripesOnly makes a batch hold only operations that name the same lanes, in the same
// order. Call it before the first Do.
func (m *Manager[T]) SameStripesOnly() { m.alike = true }

// Do has value committed together with others and returns its own outcome. size
// is its share of a batch, at least 1; lanes may repeat, and must not be changed
// before Do returns.
//
// It blocks while there is no room, while it waits for its lanes, and while its
// batch is in flight. The end of ctx withdraws an operation that has not left
// yet, with ErrWaiting and ctx.Err(): then it did not happen. One that has left
// is answered. ErrClosed: it did not happen either.
func (m *Manager[T]) Do(ctx context.Context, value T, lanes []LockStripe, size int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op[T]{value: value, lanes: lanes, size: size, since: time.Now(), done: make(chan error, 1)}
	own, leaves, err := m.add(o)
	if err != nil {
		return err
	}
	if leaves {
		// In this goroutine: when the system is quiet nobody is woken for it.
		m.run(own)
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if m.withdraw(o) {
			return fmt.Errorf("%w: %w", ErrWithdrawn, ctx.Err())
		}
		return <-o.done
	}
}

// add puts o in the queue, or in the line before it. leaves: the caller must run
// the batch that o is in.
func (m *Manager[T]) add(o *op[T]) (own taken[T], leaves bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return own, false, ErrClosed
	}
	if len(m.blocked) > 0 || !m.roomLocked(o) {
		m.blocked = append(m.blocked, o)
		return own, false, nil
	}
	m.enqueueLocked(o)
	own, leaves = m.startLocked(o)
	return own, leaves, nil
}

func (m *Manager[T]) roomLocked(o *op[T]) bool {
	return len(m.waiting) == 0 || m.size+o.size <= m.cfg.QueueSize
}

func (m *Manager[T]) enqueueLocked(o *op[T]) {
	o.state = isWaiting
	m.waiting = append(m.waiting, o)
	m.size += o.size
}

// admitLocked lets blocked callers in while there is room.
func (m *Manager[T]) admitLocked() {
	n := 0
	for n < len(m.blocked) && m.roomLocked(m.blocked[n]) {
		m.enqueueLocked(m.blocked[n])
		n++
	}
	m.blocked = drop(m.blocked, n)
}

// drop removes the first n and lets go of them.
func drop[E any](list []*E, n int) []*E {
	if n == 0 {
		return list
	}
	rest := copy(list, list[n:])
	clear(list[rest:])
	return list[:rest]
}

// withdraw takes o back unless it has left.
func (m *Manager[T]) withdraw(o *op[T]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch o.state {
	case isBlocked:
		m.blocked = without(m.blocked, o)
	case isWaiting:
		m.waiting = without(m.waiting, o)
		m.size -= o.size
		m.admitLocked()
	default:
		return false
	}
	o.state = isGone
	m.startLocked(nil) // it may have been in the way of others
	m.finishLocked()
	return true
}

func without[E any](list []*E, one *E) []*E {
	for i, e := range list {
		if e == one {
			copy(list[i:], list[i+1:])
			list[len(list)-1] = nil
			return list[:len(list)-1]
		}
	}
	return list
}

// Close refuses what comes from now on and waits until everything before has
// been answered, or ctx ends.
func (m *Manager[T]) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.startLocked(nil) // what waited for company leaves now
	m.finishLocked()
	m.mu.Unlock()
	select {
	case <-m.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("draining a batch manager: %w", ctx.Err())
	}
}

// finishLocked says so when nothing is left after Close.
func (m *Manager[T]) finishLocked() {
	if !m.closed || m.inFlight > 0 || len(m.waiting) > 0 || len(m.blocked) > 0 {
		return
	}
	select {
	case <-m.empty:
	default:
		close(m.empty)
	}
}

// Status is what a manager holds now.
type Status struct {
	// Waiting is the size of what has not left, Blocked the callers for whom
	// there is no room, and InFlight the batches in flight.
	Waiting, Blocked, InFlight int
}

// Status returns what the manager holds now.
func (m *Manager[T]) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{Waiting: m.size, Blocked: len(m.blocked), InFlight: m.inFlight}
}
