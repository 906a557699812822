package batch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

// retryBackoff is the delay before a batch is sent again. The jitter of 50 % keeps instances whose
// batches collided from colliding again.
var retryBackoff = backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Minute, Threshold: 1, Multiplier: 2, Jitter: 0.5}

// flight is a batch that has left the queue.
type flight[T any] struct {
	ops  []*op[T]
	size int
}

// startLocked starts every batch that may leave. It does not run the batch that contains own: it
// returns this batch, and the caller runs it.
func (m *Manager[T]) startLocked(own *op[T]) (mine flight[T], ok bool) {
	for {
		batch, more := m.takeLocked()
		if !more {
			return mine, ok
		}
		m.kindOf(batch.ops[0]).inFlight++
		if own != nil && own.state == stateGone && !ok {
			mine, ok = batch, true // this batch contains own
			continue
		}
		go m.run(batch)
	}
}

// takeLocked removes the next batch from the queue: the oldest operations whose stripes are free
// and not reserved by an older waiting operation.
//
// Among the waiting oversized operations, only the oldest reserves its stripes, because 20
// oversized operations can use most stripes. The oldest leaves when the batches that use its
// stripes have ended and oversized operations may leave. Then the next oversized operation is the
// oldest, so no operation waits forever.
func (m *Manager[T]) takeLocked() (flight[T], bool) {
	var batch flight[T]
	regularLeave, oversizedLeave := m.regularLeaveLocked(), m.oversizedLeaveLocked()
	if !regularLeave && !oversizedLeave {
		return batch, false
	}
	m.wanted = m.busy
	wantsAlready := false // an older oversized operation has reserved its stripes
	kept := m.waiting[:0]
	for i, o := range m.waiting {
		oversized, mayLeave := m.isOversized(o), regularLeave
		if oversized {
			mayLeave = oversizedLeave && len(batch.ops) == 0
		} else if len(batch.ops) > 0 && batch.size+o.size > m.cfg.MaxSize {
			kept = append(kept, m.waiting[i:]...) // the batch is full
			break
		}
		differs := m.sameStripes && len(batch.ops) > 0 && !slices.Equal(o.stripes, batch.ops[0].stripes)
		if differs || !mayLeave || m.wanted.hasAny(o.stripes) {
			if !oversized || !wantsAlready {
				m.wanted.add(o.stripes)
			}
			wantsAlready = wantsAlready || oversized
			kept = append(kept, o)
			continue
		}
		o.state = stateGone
		batch.ops = append(batch.ops, o)
		batch.size += o.size
		m.kindOf(o).size -= m.queued(o)
	}
	clear(m.waiting[len(kept):])
	m.waiting = kept
	if len(batch.ops) == 0 {
		return batch, false
	}
	for _, o := range batch.ops {
		m.busy.add(o.stripes)
	}
	m.admitLocked()
	return batch, true
}

// oversizedLeaveLocked reports whether another oversized operation may leave. If Config.MaxFlushes
// is at least 2, one flight stays free for regular operations.
func (m *Manager[T]) oversizedLeaveLocked() bool {
	return m.oversized.size > 0 && m.inFlightLocked() < m.cfg.MaxFlushes && m.oversized.inFlight < max(1, m.cfg.MaxFlushes-1)
}

// regularLeaveLocked reports whether another batch of regular operations may leave. If another
// regular batch is in flight, the next batch needs Config.ConcurrentSize. Oversized batches in
// flight do not count for this rule, because regular operations must not wait for them.
func (m *Manager[T]) regularLeaveLocked() bool {
	if m.regular.size == 0 || m.inFlightLocked() >= m.cfg.MaxFlushes {
		return false
	}
	return (m.regular.inFlight == 0 || m.regular.size >= m.cfg.ConcurrentSize) && m.waitedEnoughLocked()
}

// waitedEnoughLocked reports whether Config.MaxWait allows the next batch of regular operations to
// leave. If the batch must wait, waitedEnoughLocked sets the timer.
func (m *Manager[T]) waitedEnoughLocked() bool {
	if m.cfg.MaxWait <= 0 || m.closed || m.regular.size >= m.cfg.MaxSize {
		return true
	}
	oldest := slices.IndexFunc(m.waiting, func(o *op[T]) bool { return !m.isOversized(o) })
	left := m.cfg.MaxWait - time.Since(m.waiting[oldest].since)
	if left <= 0 {
		return true
	}
	if m.timer != nil {
		m.timer.Stop()
	}
	m.timer = time.AfterFunc(left, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.startLocked(nil)
	})
	return false
}

// run flushes a batch, frees its stripes and starts the batches that may leave now.
func (m *Manager[T]) run(batch flight[T]) {
	m.settle(batch.ops)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range batch.ops {
		m.busy.remove(o.stripes)
	}
	m.kindOf(batch.ops[0]).inFlight--
	m.startLocked(nil)
	m.signalDrainedLocked()
}

// settle flushes ops until each has its outcome.
func (m *Manager[T]) settle(ops []*op[T]) {
	for attempt := 1; ; attempt++ {
		each, err := m.try(ops)
		if err == nil {
			for i, o := range ops {
				o.done <- each[i]
			}
			return
		}
		verdict := m.judge(err)
		switch {
		case verdict == Retry && attempt <= m.cfg.Retries:
		case verdict == Split && len(ops) > 1:
		default:
			verdict = Fail
		}
		m.observe.Failed(verdict)
		switch verdict {
		case Retry:
			_ = backoff.Sleep(context.Background(), retryBackoff.Delay(attempt, rand.Float64()))
		case Split:
			half := len(ops) / 2
			m.settle(ops[:half])
			m.settle(ops[half:])
			return
		case Fail:
			for _, o := range ops {
				o.done <- err
			}
			return
		}
	}
}

// PanicError is the outcome of every operation of a flush that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in a flush: %v", e.Value) }

// try flushes once, and returns an error per operation or an error of the whole batch.
// A panic becomes an error per operation.
func (m *Manager[T]) try(ops []*op[T]) (each []error, err error) {
	values, size := make([]T, len(ops)), 0
	for i, o := range ops {
		values[i] = o.value
		size += o.size
	}
	started := time.Now()
	defer func() {
		m.observe.Flushed(len(ops), size, time.Since(started))
		if value := recover(); value != nil {
			failed := &PanicError{Value: value, Stack: debug.Stack()}
			each, err = make([]error, len(ops)), nil
			for i := range each {
				each[i] = failed
			}
		}
	}()
	each, err = m.flush(spanOf(ops), values)
	if each == nil {
		each = make([]error, len(ops)) // all succeeded
	}
	return each, err
}

// spanOf returns a context with the first span of the operations that is recorded.
func spanOf[T any](ops []*op[T]) context.Context {
	for _, o := range ops {
		if o.span.IsRecording() {
			return trace.ContextWithSpan(context.Background(), o.span)
		}
	}
	return context.Background()
}
