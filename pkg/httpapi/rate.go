package httpapi

import (
	"math"
	"sync"
	"time"
)

// rateSpan is the span a rate is taken over, in seconds.
const rateSpan = 60

// rate counts what happened in the last minute, in a slot a second. The zero
// value is ready; its methods may be called from several goroutines.
type rate struct {
	mu    sync.Mutex
	slots [rateSpan]struct{ second, n int64 }
}

// add counts n at now.
func (r *rate) add(now time.Time, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := now.Unix()
	slot := &r.slots[second%rateSpan]
	if slot.second != second {
		slot.second, slot.n = second, 0
	}
	slot.n += int64(n)
}

// perSecond is the mean of the last minute, to two decimals. A server that has
// run for less is taken to have done nothing before.
func (r *rate) perSecond(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n int64
	for _, slot := range r.slots {
		if age := now.Unix() - slot.second; age >= 0 && age < rateSpan {
			n += slot.n
		}
	}
	return math.Round(100*float64(n)/rateSpan) / 100
}
