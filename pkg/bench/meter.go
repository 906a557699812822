package bench

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// longest is the longest time a histogram holds; more counts as that.
	longest = 10 * time.Minute
	digits  = 3
)

// The times that are measured.
const (
	timePush       = "push"
	timePop        = "pop"
	timeFromAnswer = "push answer to delivery"
	timeFromStart  = "push start to delivery"
)

// timesInOrder is the order in which they are reported.
var timesInOrder = []string{timePush, timePop, timeFromStart, timeFromAnswer}

// timing collects times in microseconds. It is safe for concurrent use.
type timing struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

func newTiming() *timing {
	return &timing{h: hdrhistogram.New(1, longest.Microseconds(), digits)}
}

func (t *timing) add(d time.Duration) {
	value := min(max(0, d), longest).Microseconds()
	t.mu.Lock()
	defer t.mu.Unlock()
	// It fails for values out of range only.
	_ = t.h.RecordValue(value)
}

func (t *timing) latency(name string) Latency {
	t.mu.Lock()
	defer t.mu.Unlock()
	millis := func(micros int64) float64 { return float64(micros) / 1000 }
	return Latency{
		Of: name, Count: int(t.h.TotalCount()), P50: millis(t.h.ValueAtQuantile(50)), P95: millis(t.h.ValueAtQuantile(95)),
		P99: millis(t.h.ValueAtQuantile(99)), Max: millis(t.h.Max()),
	}
}

// meter counts and times one trial. It is safe for concurrent use.
type meter struct {
	// What is now, for the progress line.
	pushed, came, requests, failed atomic.Int64

	mu sync.Mutex
	// from and until frame the measurement; until is zero while it is open.
	from, until time.Time
	// pushes and deliveries count messages within the frame.
	pushes, deliveries int
	times              map[string]*timing
	errors             map[string]int
	examples           map[string]string
}

func newMeter() *meter {
	return &meter{times: map[string]*timing{}, errors: map[string]int{}, examples: map[string]string{}}
}

// frame sets when the measurement begins and, unless zero, ends.
func (m *meter) frame(from, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from, m.until = from, until
}

// end ends the measurement, unless it has ended before.
func (m *meter) end(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until.IsZero() || at.Before(m.until) {
		m.until = at
	}
}

// within says whether an instant counts; m.mu is held.
func (m *meter) within(at time.Time) bool {
	return !m.from.IsZero() && !at.Before(m.from) && (m.until.IsZero() || !at.After(m.until))
}

// time adds a time from start to end. It counts when what it belongs to began
// within the frame.
func (m *meter) time(name string, began, start, end time.Time) {
	m.mu.Lock()
	if !m.within(began) {
		m.mu.Unlock()
		return
	}
	t, ok := m.times[name]
	if !ok {
		t = newTiming()
		m.times[name] = t
	}
	m.mu.Unlock()
	t.add(end.Sub(start))
}

// stored counts messages of pushes, by when they were answered.
func (m *meter) stored(n int, at time.Time) {
	m.pushed.Add(int64(n))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.within(at) {
		m.pushes += n
	}
}

// delivered counts messages of pops, by when they were answered.
func (m *meter) delivered(n int, at time.Time) {
	m.came.Add(int64(n))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.within(at) {
		m.deliveries += n
	}
}

// fail counts a request without a good answer and keeps one of each kind.
func (m *meter) fail(err error) {
	kind := "other"
	var f *failure
	if errors.As(err, &f) {
		kind = f.kind
	}
	m.failed.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors[kind]++
	if m.errors[kind] == 1 {
		m.examples[kind] = err.Error()
	}
}

// counted returns the messages of pushes and of deliveries within the frame.
func (m *meter) counted() (pushes, deliveries int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pushes, m.deliveries
}

// seconds is how long the frame was.
func (m *meter) seconds() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.until.Sub(m.from).Seconds())
}

func (m *meter) latencies() []Latency {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []Latency{}
	for _, name := range timesInOrder {
		if t, ok := m.times[name]; ok {
			all = append(all, t.latency(name))
		}
	}
	return all
}
