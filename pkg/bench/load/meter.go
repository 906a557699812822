package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The times that are measured.
const (
	TimePush       = "push"
	TimePop        = "pop"
	TimeFromAnswer = "push answer to delivery"
	TimeFromStart  = "push start to delivery"
)

// reportOrder is the order in which times are reported.
var reportOrder = []string{TimePush, TimePop, TimeFromStart, TimeFromAnswer}

// Meter counts and times one measurement. It is safe for concurrent use.
type Meter struct {
	pushed, delivered, requests, failed atomic.Int64

	mu sync.Mutex
	// from and until bound the measured interval; until zero has no bound.
	from, until time.Time
	// pushedWithin and deliveredWithin count messages in the interval.
	pushedWithin, deliveredWithin int
	times                         map[string]*Times
	errors                        map[string]int
	examples                      map[string]error
}

// NewMeter returns a meter that measures nothing before Measure.
func NewMeter() *Meter {
	return &Meter{times: map[string]*Times{}, errors: map[string]int{}, examples: map[string]error{}}
}

// Measure sets the measured interval; until zero has no bound.
func (m *Meter) Measure(from, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from, m.until = from, until
}

// End ends the interval, unless it ended earlier.
func (m *Meter) End(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until.IsZero() || at.Before(m.until) {
		m.until = at
	}
}

func (m *Meter) withinLocked(at time.Time) bool {
	return !m.from.IsZero() && !at.Before(m.from) && (m.until.IsZero() || !at.After(m.until))
}

// Time adds the time from start to end if the request started within the interval.
func (m *Meter) Time(name string, requested, start, end time.Time) {
	m.mu.Lock()
	if !m.withinLocked(requested) {
		m.mu.Unlock()
		return
	}
	t, ok := m.times[name]
	if !ok {
		t = NewTimes()
		m.times[name] = t
	}
	m.mu.Unlock()
	t.Add(end.Sub(start))
}

// Times returns the times of a name, possibly none.
func (m *Meter) Times(name string) *Times {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.times[name]; ok {
		return t
	}
	return NewTimes()
}

// countPushed counts messages of a push that was answered at the given time.
func (m *Meter) countPushed(n int, at time.Time) {
	m.pushed.Add(int64(n))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.withinLocked(at) {
		m.pushedWithin += n
	}
}

// countDelivered counts messages of a pop that was answered at the given time.
func (m *Meter) countDelivered(n int, at time.Time) {
	m.delivered.Add(int64(n))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.withinLocked(at) {
		m.deliveredWithin += n
	}
}

// fail counts a failed request and keeps one example of each kind.
func (m *Meter) fail(err error) {
	kind := "other"
	var f *Failure
	if errors.As(err, &f) {
		kind = f.Kind
	}
	m.failed.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors[kind]++
	if m.errors[kind] == 1 {
		m.examples[kind] = err
	}
}

// Errors returns the failed requests by kind, with an example of each kind.
func (m *Meter) Errors() (counts map[string]int, examples map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	examples = map[string]string{}
	for kind, err := range m.examples {
		examples[kind] = err.Error()
	}
	return maps.Clone(m.errors), examples
}

// Err returns an error if a request failed.
func (m *Meter) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(m.errors)) {
		errs = append(errs, fmt.Errorf("%d requests failed (%s), such as: %w", m.errors[kind], kind, m.examples[kind]))
	}
	return errors.Join(errs...)
}

// Totals returns what was counted since the start, inside the interval or not.
func (m *Meter) Totals() (pushed, delivered, requests, failed int64) {
	return m.pushed.Load(), m.delivered.Load(), m.requests.Load(), m.failed.Load()
}

// Messages returns the messages of pushes and of deliveries within the interval.
func (m *Meter) Messages() (pushed, delivered int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pushedWithin, m.deliveredWithin
}

// Seconds returns the length of the interval.
func (m *Meter) Seconds() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.until.Sub(m.from).Seconds())
}

// Latencies returns the quantiles of all times.
func (m *Meter) Latencies() []Latency {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []Latency{}
	for _, name := range reportOrder {
		if t, ok := m.times[name]; ok {
			all = append(all, t.Latency(name))
		}
	}
	return all
}
