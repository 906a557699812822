package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Do returns these errors if the operation did not happen.
var (
	// ErrClosed means that the operation arrived after Close.
	ErrClosed = errors.New("the batch manager is closed")
	// ErrWithdrawn means that the context of the operation ended before its batch left.
	ErrWithdrawn = errors.New("the operation was withdrawn while it waited for a batch")
)

// Verdict is what happens to a batch that failed as a whole.
type Verdict int

// The verdicts. See the package doc.
const (
	Fail Verdict = iota
	Split
	Retry
)

// FlushFunc does the operations of a batch. It returns in each one error per operation, or a nil
// slice if all operations succeeded. It returns in err an error of the whole batch. Such an error
// means that no operation happened, or that a repetition is harmless. The function must bound its
// own time: ctx only carries a span and never ends. The span is the first one of the operations that is recorded.
type FlushFunc[T any] func(ctx context.Context, ops []T) (each []error, err error)

// Observer receives the events of a Manager. The manager holds no lock while it
// calls an Observer. The methods must not block.
type Observer interface {
	// Flushed reports that a flush of ops operations with a total size of size has ended.
	Flushed(ops, size int, took time.Duration)
	// Failed reports that a flush failed as a whole and received a verdict.
	Failed(Verdict)
}

// Manager commits the operations of many callers together. It is safe for concurrent use.
type Manager[T any] struct {
	cfg     Config
	flush   FlushFunc[T]
	judge   func(error) Verdict
	observe Observer
	// sameStripes makes a batch hold only operations with the same stripes.
	sameStripes bool

	mu sync.Mutex
	// waiting are the operations that have not left yet, oldest first.
	waiting []*op[T]
	// regular and oversized count operations separately. The size of an oversized operation exceeds
	// Config.MaxSize.
	regular, oversized kind[T]
	// busy are the stripes of the batches in flight. Only takeLocked uses wanted.
	busy, wanted stripeSet
	timer        *time.Timer
	closed       bool
	// drained is closed when the manager is closed and has no operation left.
	drained chan struct{}
}

// kind holds the counts of the regular operations, or of the oversized operations.
type kind[T any] struct {
	// size is the sum of the sizes of the waiting operations. An operation counts at most
	// Config.MaxSize. If several operations wait, size is at most Config.QueueSize.
	size int
	// blocked are the operations for which the queue has no room, oldest first.
	blocked []*op[T]
	// inFlight is the number of batches in flight.
	inFlight int
}

// op is one operation from the call of Do until its outcome.
type op[T any] struct {
	value   T
	stripes []LockStripe
	size    int
	since   time.Time
	state   state
	// span is the span of the context of Do.
	span trace.Span
	// done receives exactly one outcome.
	done chan error
}

// state is the state of an op. Manager.mu guards it.
type state int

const (
	stateBlocked state = iota
	stateWaiting
	stateGone // in flight, answered or withdrawn
)

// New returns a Manager. judge decides what happens to a failed batch.
func New[T any](cfg Config, flush FlushFunc[T], judge func(error) Verdict, observe Observer) *Manager[T] {
	return &Manager[T]{cfg: cfg, flush: flush, judge: judge, observe: observe, drained: make(chan struct{})}
}

// SameStripesOnly makes a batch hold only operations that name the same stripes in
// the same order. Call it before the first Do.
func (m *Manager[T]) SameStripesOnly() { m.sameStripes = true }

// Do commits value together with the operations of other callers and returns the outcome of value.
// size is the share of value in a batch, at least 1. stripes may contain duplicates, and must not
// change before Do returns.
//
// Do blocks while the queue has no room, while the stripes are in use, and while the batch is in
// flight. If ctx ends before the batch leaves, Do returns ErrWithdrawn and ctx.Err(), and the
// operation did not happen. After the batch has left, Do waits for the outcome. If Do returns
// ErrClosed, the operation did not happen.
func (m *Manager[T]) Do(ctx context.Context, value T, stripes []LockStripe, size int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op[T]{value: value, stripes: stripes, size: size, since: time.Now(), span: trace.SpanFromContext(ctx), done: make(chan error, 1)}
	own, leaves, err := m.add(o)
	if err != nil {
		return err
	}
	if leaves {
		// Without load, running the batch in this goroutine saves the start of another goroutine.
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

// add queues o, or blocks o if the queue has no room. If leaves is true, the caller must run the
// batch own, which contains o.
func (m *Manager[T]) add(o *op[T]) (own flight[T], leaves bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return own, false, ErrClosed
	}
	if k := m.kindOf(o); len(k.blocked) > 0 || !m.hasRoomLocked(o) {
		k.blocked = append(k.blocked, o)
		return own, false, nil
	}
	m.enqueueLocked(o)
	own, leaves = m.startLocked(o)
	return own, leaves, nil
}

func (m *Manager[T]) isOversized(o *op[T]) bool { return o.size > m.cfg.MaxSize }

func (m *Manager[T]) kindOf(o *op[T]) *kind[T] {
	if m.isOversized(o) {
		return &m.oversized
	}
	return &m.regular
}

func (m *Manager[T]) hasRoomLocked(o *op[T]) bool {
	k := m.kindOf(o)
	return k.size == 0 || k.size+m.queued(o) <= m.cfg.QueueSize
}

// queued returns the size that o has in the queue.
func (m *Manager[T]) queued(o *op[T]) int { return min(o.size, m.cfg.MaxSize) }

func (m *Manager[T]) enqueueLocked(o *op[T]) {
	o.state = stateWaiting
	m.waiting = append(m.waiting, o)
	m.kindOf(o).size += m.queued(o)
}

// admitLocked queues blocked operations while there is room.
func (m *Manager[T]) admitLocked() {
	for _, k := range []*kind[T]{&m.regular, &m.oversized} {
		n := 0
		for n < len(k.blocked) && m.hasRoomLocked(k.blocked[n]) {
			m.enqueueLocked(k.blocked[n])
			n++
		}
		k.blocked = slices.Delete(k.blocked, 0, n)
	}
}

func (m *Manager[T]) inFlightLocked() int { return m.regular.inFlight + m.oversized.inFlight }

func (m *Manager[T]) blockedLocked() int { return len(m.regular.blocked) + len(m.oversized.blocked) }

// withdraw removes o from the queue. It returns false if the batch of o has already left.
func (m *Manager[T]) withdraw(o *op[T]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kindOf(o)
	isO := func(other *op[T]) bool { return other == o }
	switch o.state {
	case stateBlocked:
		k.blocked = slices.DeleteFunc(k.blocked, isO)
	case stateWaiting:
		m.waiting = slices.DeleteFunc(m.waiting, isO)
		k.size -= m.queued(o)
		m.admitLocked()
	default:
		return false
	}
	o.state = stateGone
	m.startLocked(nil) // later operations may have waited for the stripes of o
	m.signalDrainedLocked()
	return true
}

// Close refuses new operations. It blocks until every earlier operation has its
// outcome, and then returns nil. If ctx ends first, it returns an error.
func (m *Manager[T]) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.startLocked(nil) // a batch that waits for more operations leaves now
	m.signalDrainedLocked()
	m.mu.Unlock()
	select {
	case <-m.drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("draining a batch manager: %w", ctx.Err())
	}
}

// signalDrainedLocked closes drained if the manager is closed and has no operation left.
func (m *Manager[T]) signalDrainedLocked() {
	if !m.closed || m.inFlightLocked() > 0 || len(m.waiting) > 0 || m.blockedLocked() > 0 {
		return
	}
	select {
	case <-m.drained:
	default:
		close(m.drained)
	}
}

// Status is the load of a manager.
type Status struct {
	// Waiting is the total size (messages) of the waiting operations. An operation counts at most
	// Config.MaxSize. Blocked is the number of callers for which the queue has no room. InFlight is
	// the number of batches in flight.
	Waiting, Blocked, InFlight int
}

// Status returns the current load.
func (m *Manager[T]) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{Waiting: m.regular.size + m.oversized.size, Blocked: m.blockedLocked(), InFlight: m.inFlightLocked()}
}

// stripeBits sets the number of stripes. An operation on one partition shares a stripe by chance with 7
// % of the operations on 10,000 partitions. Two operations on 10,000 partitions almost always share a
// stripe, so they leave one after the other. Such operations are usually oversized, and only the oldest
// waiting oversized operation reserves its stripes (takeLocked). So one such operation in flight and
// one waiting delay at most 15 % of the operations on one partition.
const stripeBits = 17

// LockStripe is a hash of a key. Two batches in flight never share a stripe.
type LockStripe uint32

// LockStripeOf returns the stripe of a key.
func LockStripeOf(key int64) LockStripe {
	// The upper bits of a multiplication by the golden ratio spread consecutive keys evenly.
	return LockStripe(uint64(key) * 0x9e3779b97f4a7c15 >> (64 - stripeBits))
}

// stripeSet is a set of stripes.
type stripeSet [1 << stripeBits / 64]uint64

func (s *stripeSet) add(stripes []LockStripe) {
	for _, l := range stripes {
		s[l/64] |= 1 << (l % 64)
	}
}

func (s *stripeSet) remove(stripes []LockStripe) {
	for _, l := range stripes {
		s[l/64] &^= 1 << (l % 64)
	}
}

func (s *stripeSet) hasAny(stripes []LockStripe) bool {
	for _, l := range stripes {
		if s[l/64]&(1<<(l%64)) != 0 {
			return true
		}
	}
	return false
}
