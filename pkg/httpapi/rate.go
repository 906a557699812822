package httpapi

import (
	"math"
	"sync"
	"time"
)

// rateSpan is the number of seconds that a rate covers.
const rateSpan = 60

// rate counts the events of the last minute in one slot for each second. The zero
// value is ready. Its methods may be called from several goroutines.
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

// perSecond returns the mean of the last minute, rounded to two decimals. The time
// before the start of the server counts as time without events.
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
