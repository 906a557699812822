package load

import (
	"math"
	"sync"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"
)

// precision is the relative error of a quantile: three significant digits.
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

// Times collects times in microseconds, with three significant digits. A time may be negative: a
// pop may be answered before its push. It is safe for concurrent use.
type Times struct {
	mu     sync.Mutex
	sketch *ddsketch.DDSketch
}

// NewTimes returns a collection without times.
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

// Merge adds all times of another collection, which does not change meanwhile.
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

// Quantile returns the value that a share q of all times does not exceed, from 0 to 1; 0 if
// there is no time.
func (t *Times) Quantile(q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	micros, err := t.sketch.GetValueAtQuantile(q)
	if err != nil { // there is no time
		return 0
	}
	return time.Duration(math.Round(micros)) * time.Microsecond
}

// Latency returns the quantiles; a negative time counts as 0.
func (t *Times) Latency(name string) Latency {
	millis := func(q float64) float64 { return float64(max(0, t.Quantile(q)).Microseconds()) / 1000 }
	return Latency{Of: name, Count: t.Count(), P50: millis(0.5), P95: millis(0.95), P99: millis(0.99), Max: millis(1)}
}
