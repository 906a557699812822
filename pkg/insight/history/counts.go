package history

import (
	"math"
	"math/bits"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Other is the queue of the counts above a bound, and of events whose queue is not known.
const Other = "(other)"

// Key names what is counted: a queue and a group. Pushes and partitions have no group.
type Key struct{ Queue, Group string }

// Counts are numbers of events. The tags are the columns of belfry.history.
type Counts struct {
	// PushRequests counts requests, and PushMessages the messages that were stored. Duplicates do not count.
	PushRequests int64 `json:"push_requests" db:"push_requests"`
	PushMessages int64 `json:"push_messages" db:"push_messages"`
	// PopRequests counts the pops that were answered, PopEmpty those without a message.
	PopRequests int64 `json:"pop_requests" db:"pop_requests"`
	PopMessages int64 `json:"pop_messages" db:"pop_messages"`
	PopEmpty    int64 `json:"pop_empty" db:"pop_empty"`
	// AckSuccess counts the acknowledgments that were applied, DeadLetters those among them that made a dead letter.
	AckRequests int64 `json:"ack_requests" db:"ack_requests"`
	AckSuccess  int64 `json:"ack_success" db:"ack_success"`
	AckFailed   int64 `json:"ack_failed" db:"ack_failed"`
	DeadLetters int64 `json:"dead_letters" db:"dead_letters"`
	// Transactions counts the applied ones with an operation of the queue.
	Transactions int64 `json:"transactions" db:"transactions"`
	// PartitionsCreated counts partitions that this instance created.
	PartitionsCreated int64 `json:"partitions_created" db:"partitions_created"`
	PartitionsDeleted int64 `json:"partitions_deleted" db:"partitions_deleted"`
	// The messages that the sweeps of this instance deleted, by rule.
	RemovedRetention int64 `json:"removed_retention" db:"removed_retention"`
	RemovedCompleted int64 `json:"removed_completed" db:"removed_completed"`
	RemovedEvicted   int64 `json:"removed_evicted" db:"removed_evicted"`
	// LagSum, LagMax and LagCount are microseconds from commit to delivery, of first deliveries.
	LagSum   int64 `json:"lag_sum" db:"lag_sum"`
	LagMax   int64 `json:"lag_max" db:"lag_max"`
	LagCount int64 `json:"lag_count" db:"lag_count"`
}

// Add adds the counts of o.
func (c *Counts) Add(o *Counts) {
	c.PushRequests += o.PushRequests
	c.PushMessages += o.PushMessages
	c.PopRequests += o.PopRequests
	c.PopMessages += o.PopMessages
	c.PopEmpty += o.PopEmpty
	c.AckRequests += o.AckRequests
	c.AckSuccess += o.AckSuccess
	c.AckFailed += o.AckFailed
	c.DeadLetters += o.DeadLetters
	c.Transactions += o.Transactions
	c.PartitionsCreated += o.PartitionsCreated
	c.PartitionsDeleted += o.PartitionsDeleted
	c.RemovedRetention += o.RemovedRetention
	c.RemovedCompleted += o.RemovedCompleted
	c.RemovedEvicted += o.RemovedEvicted
	c.LagSum += o.LagSum
	c.LagMax = max(c.LagMax, o.LagMax)
	c.LagCount += o.LagCount
}

// tally are the counts of one key since the last row.
type tally struct {
	Counts
	latency Latency
	// busy: something happened that is worth a row.
	busy bool
}

func (t *tally) add(o *tally) {
	t.Add(&o.Counts)
	t.latency.add(&o.latency)
	t.busy = t.busy || o.busy
}

func (t *tally) acknowledged(result *queue.AckResult) {
	if result.DeadLettered {
		t.DeadLetters++
	}
	if result.Success {
		t.AckSuccess++
	} else {
		t.AckFailed++
	}
}

// delivered counts a first delivery by its age.
func (t *tally) delivered(age time.Duration) {
	micros := max(0, age.Microseconds())
	t.latency.Observe(age)
	t.LagSum += micros
	t.LagMax = max(t.LagMax, micros)
	t.LagCount++
}

// messages is by what the busiest keys are chosen.
func (t *tally) messages() int64 { return t.PushMessages + t.PopMessages + t.AckSuccess }

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
