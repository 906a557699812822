package load

import (
	"errors"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"
)

// The names of the measured times.
const (
	TimePush       = "push"
	TimePop        = "pop"
	TimeFromAnswer = "push answer to delivery"
	TimeFromStart  = "push start to delivery"
)

// reportOrder is the order of the times in the report.
var reportOrder = []string{TimePush, TimePop, TimeFromStart, TimeFromAnswer}

// Meter counts messages and measures times during one measurement. It is safe for concurrent use.
type Meter struct {
	Pushed, Delivered Messages
	// Requests counts all requests. Failed counts failed requests.
	Requests, Failed atomic.Int64
	// Times has the times of each name in reportOrder.
	Times map[string]*Times

	mu sync.Mutex
	// from and until limit the measured interval. If until is zero, the interval has no end.
	from, until time.Time
	errors      map[string]int
	examples    map[string]string
}

// Messages counts messages. Within counts the messages answered within the measured interval.
type Messages struct{ All, Within atomic.Int64 }

// NewMeter returns a meter. It measures nothing before a call of Measure.
func NewMeter() *Meter {
	m := &Meter{Times: map[string]*Times{}, errors: map[string]int{}, examples: map[string]string{}}
	for _, name := range reportOrder {
		m.Times[name] = NewTimes()
	}
	return m
}

// Measure sets the measured interval. If until is zero, the interval has no end.
func (m *Meter) Measure(from, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from, m.until = from, until
}

// End ends the measured interval at the given time, unless it ends earlier.
func (m *Meter) End(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until.IsZero() || at.Before(m.until) {
		m.until = at
	}
}

func (m *Meter) within(at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.from.IsZero() && !at.Before(m.from) && (m.until.IsZero() || !at.After(m.until))
}

// Time adds the time from start to end if requested is within the measured interval. A nil meter measures nothing.
func (m *Meter) Time(name string, requested, start, end time.Time) {
	if m != nil && m.within(requested) {
		m.Times[name].Add(end.Sub(start))
	}
}

// count counts n messages of a request. at is the time of the answer.
func (m *Meter) count(messages *Messages, n int, at time.Time) {
	messages.All.Add(int64(n))
	if m.within(at) {
		messages.Within.Add(int64(n))
	}
}

// fail counts a failed request. It keeps one example of each kind of error.
func (m *Meter) fail(err error) {
	kind := "other"
	var f *Failure
	if errors.As(err, &f) {
		kind = f.Kind
	}
	m.Failed.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.errors[kind]++; m.errors[kind] == 1 {
		m.examples[kind] = err.Error()
	}
}

// Errors returns the number of failed requests of each kind, and one example of each kind.
func (m *Meter) Errors() (counts map[string]int, examples map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.errors), maps.Clone(m.examples)
}

// Seconds returns the length of the measured interval.
func (m *Meter) Seconds() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.until.Sub(m.from).Seconds())
}

// Latencies returns the quantiles of each name with at least one time.
func (m *Meter) Latencies() []Latency {
	all := []Latency{}
	for _, name := range reportOrder {
		if l := m.Times[name].Latency(name); l.Count > 0 {
			all = append(all, l)
		}
	}
	return all
}

// precision is the relative error of a quantile. It gives three significant digits.
const precision = 0.0005

// Latency has quantiles in milliseconds.
type Latency struct {
	Of    string  `json:"of"`
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Times collects times in microseconds, with three significant digits. A time is negative if a message is delivered
// before the answer to its push. Times is safe for concurrent use.
type Times struct {
	mu     sync.Mutex
	sketch *ddsketch.DDSketch
}

// NewTimes returns an empty collection.
func NewTimes() *Times {
	sketch, _ := ddsketch.NewDefaultDDSketch(precision) // it fails only if the precision is not between 0 and 1
	return &Times{sketch: sketch}
}

// Add adds a time.
func (t *Times) Add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.sketch.Add(float64(d.Microseconds())) // it fails only for a value out of range
}

// Merge adds all times of another collection. The other collection must not change meanwhile.
func (t *Times) Merge(other *Times) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.sketch.MergeWith(other.sketch) // it fails only for another precision
}

// Count returns the number of times.
func (t *Times) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.sketch.GetCount())
}

// Quantile returns the time that a share q of all times does not exceed. q is from 0 to 1. Quantile returns 0 if
// there are no times.
func (t *Times) Quantile(q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.sketch.GetCount()
	if n == 0 {
		return 0
	}
	rank := max(0, math.Floor(q*n+0.5)-1)
	// The sketch rounds a rank to the value nearer to 0.
	at := func(rank float64) float64 {
		micros, _ := t.sketch.GetValueAtQuantile(min(1, max(0, rank/(n-1)))) // it fails only without times
		return math.Round(micros)
	}
	micros := at(rank + 0.25)
	if micros < 0 {
		micros = at(rank - 0.25)
	}
	return time.Duration(micros) * time.Microsecond
}

// Latency returns the quantiles. A negative time counts as 0.
func (t *Times) Latency(name string) Latency {
	millis := func(q float64) float64 { return float64(max(0, t.Quantile(q)).Microseconds()) / 1000 }
	return Latency{Of: name, Count: t.Count(), P50: millis(0.5), P95: millis(0.95), P99: millis(0.99), Max: millis(1)}
}
