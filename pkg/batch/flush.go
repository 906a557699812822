package batch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"
)

// retryDelay is the pause before a batch is sent again for the first time; it
// doubles.
const retryDelay = 10 * time.Millisecond

// taken is a batch that has left the queue.
type taken[T any] struct {
	ops  []*op[T]
	size int
}

// startLocked sends as many batches as may leave, but for the one with own in it,
// which it returns for the caller to run.
func (m *Manager[T]) startLocked(own *op[T]) (mine taken[T], ok bool) {
	for {
		batch, more := m.takeLocked()
		if !more {
			return mine, ok
		}
		m.inFlight++
		if own != nil && own.state == isGone && !ok {
			mine, ok = batch, true // the first batch after own came has it
			continue
		}
		go m.run(batch)
	}
}

// takeLocked takes the next batch off the queue: the oldest operations whose
// lanes are free and are not wanted by an older one that has to wait.
func (m *Manager[T]) takeLocked() (taken[T], bool) {
	if !m.mayLeaveLocked() {
		return taken[T]{}, false
	}
	var batch taken[T]
	wanted := m.busy
	kept := m.waiting[:0]
	for i, o := range m.waiting {
		full := len(batch.ops) > 0 && batch.size+o.size > m.cfg.MaxSize
		if full {
			kept = append(kept, m.waiting[i:]...)
			break
		}
		stranger := m.alike && len(batch.ops) > 0 && !slices.Equal(o.lanes, batch.ops[0].lanes)
		if stranger || wanted.hasAny(o.lanes) {
			wanted.add(o.lanes)
			kept = append(kept, o)
			continue
		}
		o.state = isGone
		batch.ops = append(batch.ops, o)
		batch.size += o.size
	}
	clear(m.waiting[len(kept):])
	m.waiting = kept
	if len(batch.ops) == 0 {
		return batch, false
	}
	m.size -= batch.size
	for _, o := range batch.ops {
		m.busy.add(o.lanes)
	}
	m.admitLocked()
	return batch, true
}

// mayLeaveLocked says whether another batch may leave: the only one at once, and
// one beside others when it is worth a transaction of its own.
func (m *Manager[T]) mayLeaveLocked() bool {
	beside := m.inFlight > 0
	if beside && (m.inFlight >= m.cfg.MaxFlushes || m.size < m.cfg.ConcurrentSize) {
		return false
	}
	return m.ripeLocked()
}

// ripeLocked says whether a batch may leave now, and sets the timer when it must
// wait for company.
func (m *Manager[T]) ripeLocked() bool {
	if len(m.waiting) == 0 {
		return false
	}
	if m.cfg.MaxWait <= 0 || m.closed || m.size >= m.cfg.MaxSize {
		return true
	}
	left := m.cfg.MaxWait - time.Since(m.waiting[0].since)
	if left <= 0 {
		return true
	}
	if m.wait != nil {
		m.wait.Stop()
	}
	m.wait = time.AfterFunc(left, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.startLocked(nil)
	})
	return false
}

// run flushes a batch, and lets go what it was in the way of.
func (m *Manager[T]) run(batch taken[T]) {
	m.settle(batch.ops)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range batch.ops {
		m.busy.remove(o.lanes)
	}
	m.inFlight--
	m.startLocked(nil)
	m.finishLocked()
}

// settle flushes ops until each has its outcome.
func (m *Manager[T]) settle(ops []*op[T]) {
	delay := retryDelay
	for attempt := 0; ; attempt++ {
		each, err := m.try(ops)
		if err == nil {
			for i, o := range ops {
				if each != nil {
					o.done <- each[i]
				} else {
					o.done <- nil
				}
			}
			return
		}
		verdict := m.judge(err)
		switch {
		case verdict == Retry && attempt < m.cfg.Retries:
		case verdict == Split && len(ops) > 1:
		default:
			verdict = Fail
		}
		m.observe.Failed(verdict)
		switch verdict {
		case Retry:
			pause(delay)
			delay *= 2
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

// pause waits for d, shortened by up to half so that instances which met do not
// meet again.
func pause(d time.Duration) {
	timer := time.NewTimer(time.Duration(float64(d) * (1 - 0.5*rand.Float64())))
	defer timer.Stop()
	<-timer.C
}

// PanicError is what the callers of a flush that panicked get.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in a flush: %v", e.Value) }

// try flushes once. A panic becomes an error by operation.
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
	return m.flush(context.Background(), values)
}
