package history

import (
	"math"
	"math/bits"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Other is the queue name for the counts beyond a bound, and for events of an unknown queue.
const Other = api.OtherQueues

// Key is the queue and group of a count. The Group is empty for pushes and partitions.
type Key struct{ Queue, Group string }

// Counts are numbers of events. The tags name the columns of belfry.history.
type Counts struct {
	// PushRequests counts requests. PushMessages counts stored messages, without duplicates.
	PushRequests int64 `json:"push_requests" db:"push_requests"`
	PushMessages int64 `json:"push_messages" db:"push_messages"`
	// PopRequests counts the answered pops. PopEmpty counts the pops that were answered without a message.
	PopRequests int64 `json:"pop_requests" db:"pop_requests"`
	PopMessages int64 `json:"pop_messages" db:"pop_messages"`
	PopEmpty    int64 `json:"pop_empty" db:"pop_empty"`
	// AckRequests counts requests.
	AckRequests int64 `json:"ack_requests" db:"ack_requests"`
	// AckSuccess counts the messages that consumers completed, those of pops with autoAck included. AckFailed counts the
	// messages that consumers could not process (failed, dlq), and AckRetried those that they gave back (retry). AckRefused
	// counts the acknowledgments that were not applied.
	AckSuccess int64 `json:"ack_success" db:"ack_success"`
	AckFailed  int64 `json:"ack_failed" db:"ack_failed"`
	AckRetried int64 `json:"ack_retried" db:"ack_retried"`
	AckRefused int64 `json:"ack_refused" db:"ack_refused"`
	// DeadLetters counts the messages that an acknowledgment made a dead letter.
	DeadLetters int64 `json:"dead_letters" db:"dead_letters"`
	// Transactions counts the applied transactions that have an operation of the queue.
	Transactions int64 `json:"transactions" db:"transactions"`
	// PartitionsCreated counts partitions that this instance created.
	PartitionsCreated int64 `json:"partitions_created" db:"partitions_created"`
	PartitionsDeleted int64 `json:"partitions_deleted" db:"partitions_deleted"`
	// RemovedRetention, RemovedCompleted and RemovedEvicted count the messages that this instance swept, by rule.
	RemovedRetention int64 `json:"removed_retention" db:"removed_retention"`
	RemovedCompleted int64 `json:"removed_completed" db:"removed_completed"`
	RemovedEvicted   int64 `json:"removed_evicted" db:"removed_evicted"`
	// LagSum and LagMax are the microseconds from commit to first delivery. LagCount counts first deliveries.
	LagSum   int64 `json:"lag_sum" db:"lag_sum"`
	LagMax   int64 `json:"lag_max" db:"lag_max"`
	LagCount int64 `json:"lag_count" db:"lag_count"`
}

// Messages counts the messages that were pushed, delivered and acknowledged. A queue is busier with more of them.
func (c *Counts) Messages() int64 { return c.PushMessages + c.PopMessages + c.Acked() }

// Acked counts the acknowledgments that were applied.
func (c *Counts) Acked() int64 { return c.AckSuccess + c.AckFailed + c.AckRetried }

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
	c.AckRetried += o.AckRetried
	c.AckRefused += o.AckRefused
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
	// busy is true if the Writer must write a row for these counts.
	busy bool
}

func (t *tally) add(o *tally) {
	t.Add(&o.Counts)
	t.latency.add(&o.latency)
	t.busy = t.busy || o.busy
}

func (t *tally) acknowledged(item *queue.AckItem, result *queue.AckResult) {
	if result.DeadLettered {
		t.DeadLetters++
	}
	switch {
	case !result.Success:
		t.AckRefused++
	case item.Status == queue.AckFailed || item.Status == queue.AckDead:
		t.AckFailed++
	case item.Status == queue.AckRetry:
		t.AckRetried++
	default:
		t.AckSuccess++
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

const (
	// Each doubling of a duration has stepsPerDoubling buckets of equal width, so a bucket is 14 % to 25 % wide.
	stepBits         = 2
	stepsPerDoubling = 1 << stepBits
	// The first bucket ends at 2^firstDoubling µs: 64 µs. The last bucket starts at 2^lastDoubling µs: 4.8 hours.
	firstDoubling = 6
	lastDoubling  = 34
	buckets       = (lastDoubling-firstDoubling)*stepsPerDoubling + 2
	// An element of the column latency has the count in its lowest countBits bits, and the bucket above them.
	countBits = 40
)

// Latency is a histogram of durations. Its buckets are the same everywhere, so histograms of instances
// and minutes can be added.
type Latency [buckets]uint32

// Observe counts a duration. A negative duration counts as 0. Clocks that differ can cause a negative duration.
func (l *Latency) Observe(d time.Duration) { l[bucketOf(d)]++ }

func (l *Latency) add(o *Latency) {
	for i := range o {
		l[i] += o[i]
	}
}

// elements returns the buckets with a count, in the format of the column latency.
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

// Percentile adds up the counts, and returns the upper end of the bucket in which the sum reaches the share p of all
// counts. The buckets must be in ascending order. Without a count it returns 0.
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
