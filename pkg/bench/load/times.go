package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// longest is the longest time of a histogram; a longer one counts as this.
	longest = 10 * time.Minute
	digits  = 3
)

// Latency has quantiles in milliseconds.
type Latency struct {
	Of    string  `json:"of"`
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Times collects times in microseconds, with three significant digits. It is safe for
// concurrent use.
type Times struct {
	mu sync.Mutex
	// negative has the absolute values of times below 0: a pop may be answered before its push.
	negative, positive *hdrhistogram.Histogram
}

// NewTimes returns a collection without times.
func NewTimes() *Times {
	return &Times{positive: newHistogram()}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest.Microseconds(), digits)
}

// Add adds a time.
func (t *Times) Add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	into, value := t.positive, d.Microseconds()
	if value < 0 {
		if t.negative == nil {
			t.negative = newHistogram()
		}
		into, value = t.negative, -value
	}
	_ = into.RecordValue(min(value, longest.Microseconds())) // it fails only for a value out of range
}

// Merge adds all times of another collection, which does not change meanwhile.
func (t *Times) Merge(other *Times) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.positive.Merge(other.positive)
	if other.negative != nil {
		if t.negative == nil {
			t.negative = newHistogram()
		}
		t.negative.Merge(other.negative)
	}
}

// Count returns the number of times.
func (t *Times) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	negative, positive := t.countsLocked()
	return int(negative + positive)
}

func (t *Times) countsLocked() (negative, positive int64) {
	if t.negative != nil {
		negative = t.negative.TotalCount()
	}
	return negative, t.positive.TotalCount()
}

// Quantile returns the value that a share q of all times does not exceed, from 0 to 1; 0 if
// there is no time.
func (t *Times) Quantile(q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	negative, positive := t.countsLocked()
	total := negative + positive
	if total == 0 {
		return 0
	}
	rank := min(max(1, int64(q*float64(total)+0.5)), total)
	if rank <= negative {
		return -valueAt(t.negative, negative-rank+1)
	}
	return valueAt(t.positive, rank-negative)
}

// valueAt returns the value of a rank, from 1.
func valueAt(h *hdrhistogram.Histogram, rank int64) time.Duration {
	return time.Duration(h.ValueAtQuantile(100*float64(rank)/float64(h.TotalCount()))) * time.Microsecond
}

// Latency returns the quantiles; a negative time counts as 0.
func (t *Times) Latency(name string) Latency {
	millis := func(q float64) float64 { return float64(max(0, t.Quantile(q)).Microseconds()) / 1000 }
	return Latency{Of: name, Count: t.Count(), P50: millis(0.5), P95: millis(0.95), P99: millis(0.99), Max: millis(1)}
}
