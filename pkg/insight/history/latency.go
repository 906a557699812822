package history

import (
	"math"
	"math/bits"
	"time"
)

const (
	// Each doubling of a duration has stepsPerDoubling buckets, so a bucket is 19 % wide.
	stepBits         = 2
	stepsPerDoubling = 1 << stepBits
	// firstDoubling is the exponent of the end of the first bucket: 64 µs. lastDoubling is that of the
	// begin of the last one: 4.8 hours.
	firstDoubling = 6
	lastDoubling  = 34
	buckets       = (lastDoubling-firstDoubling)*stepsPerDoubling + 2
	// countBits is how many bits of an element of the column latency are the count.
	countBits = 40
)

// Latency is a histogram of durations. Its buckets are the same everywhere, so histograms of instances
// and minutes can be added.
type Latency [buckets]uint32

// Observe counts a duration. A negative one, which clocks that differ can make, counts as 0.
func (l *Latency) Observe(d time.Duration) { l[bucketOf(d)]++ }

func (l *Latency) add(o *Latency) {
	for i := range o {
		l[i] += o[i]
	}
}

// elements returns the buckets with a count, as the column latency has them.
func (l *Latency) elements() []int64 {
	found := []int64{}
	for i, n := range l {
		if n > 0 {
			found = append(found, int64(i)<<countBits|int64(n))
		}
	}
	return found
}

func bucketOf(d time.Duration) int {
	micros := uint64(max(0, d.Microseconds()))
	exponent := bits.Len64(micros) - 1
	switch {
	case exponent < firstDoubling:
		return 0
	case exponent >= lastDoubling:
		return buckets - 1
	}
	step := int(micros>>(exponent-stepBits)) & (stepsPerDoubling - 1)
	return 1 + (exponent-firstDoubling)*stepsPerDoubling + step
}

// upperEnd returns the end of a bucket.
func upperEnd(bucket int) time.Duration {
	if bucket <= 0 {
		return 1 << firstDoubling * time.Microsecond
	}
	doubling, step := (bucket-1)/stepsPerDoubling+firstDoubling, (bucket-1)%stepsPerDoubling
	micros := math.Ldexp(1+float64(step+1)/stepsPerDoubling, doubling)
	return time.Duration(micros) * time.Microsecond
}

// Bucketed is a bucket of a histogram and its count.
type Bucketed struct {
	Bucket int
	Count  int64
}

// Percentile returns the least end of a bucket that at least the share p of the counts do not exceed. The
// buckets are in order. Without a count it returns 0.
func Percentile(histogram []Bucketed, p float64) time.Duration {
	var all, below int64
	for _, b := range histogram {
		all += b.Count
	}
	for _, b := range histogram {
		if below += b.Count; float64(below) >= p*float64(all) {
			return upperEnd(b.Bucket)
		}
	}
	return 0
}
