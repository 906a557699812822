package history

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	shards = 16
	// maxKeys is how many keys are counted separately at a time. One key needs about 700 bytes.
	maxKeys = 4096
)

// Recorder counts the work of this instance. It is safe for concurrent use, and its methods do not block.
type Recorder struct {
	events.Nop
	seed   maphash.Seed
	keys   atomic.Int64
	shards [shards]shard
	// dbErrors counts requests that failed because of the database.
	dbErrors atomic.Int64

	gathering sync.Mutex
	// pending are the counts by key that left the shards and are not in a row yet. totals are the counts by queue
	// since the start of the instance. gathering guards pending and totals.
	pending map[Key]*tally
	totals  map[string]*Counts
	watched watched
	// maxTotals is how many queues have totals. Further queues share the totals of Other.
	maxTotals int
	// The Recorder calls OnCount after each count that makes a minute busy. OnCount may be nil and must not block.
	// Set it before the first count.
	OnCount func()
}

type shard struct {
	mu   sync.Mutex
	keys map[Key]*tally
	_    [40]byte // puts each lock into another cache line
}

// NewRecorder returns a Recorder that keeps totals for at most maxTotals queues.
func NewRecorder(maxTotals int) *Recorder {
	return &Recorder{seed: maphash.MakeSeed(), pending: map[Key]*tally{}, totals: map[string]*Counts{}, maxTotals: maxTotals}
}

// count changes the counts of a key, and marks the key busy, so that the Writer writes its row.
func (r *Recorder) count(key Key, change func(t *tally)) {
	r.change(key, func(t *tally) {
		t.busy = true
		change(t)
	})
	if onCount := r.watched.onCount.Load(); onCount != nil && key.Queue != Other {
		r.watched.change(key.Queue, change)
		(*onCount)()
	}
	if r.OnCount != nil {
		r.OnCount()
	}
}

func (r *Recorder) change(key Key, change func(t *tally)) {
	s := &r.shards[maphash.Comparable(r.seed, key)%shards]
	s.mu.Lock()
	t := s.keys[key]
	if t == nil {
		if key.Queue != Other && r.keys.Load() >= maxKeys {
			s.mu.Unlock()
			r.change(Key{Queue: Other}, change)
			return
		}
		if s.keys == nil {
			s.keys = map[Key]*tally{}
		}
		r.keys.Add(1)
		t = &tally{}
		s.keys[key] = t
	}
	change(t)
	s.mu.Unlock()
}

// Pushed counts an answered push. It counts one request for each queue of the push.
func (r *Recorder) Pushed(items []queue.PushItem, results []queue.PushResult) {
	for from, to := 0, 0; from < len(items); from = to {
		name, stored := items[from].Queue, int64(0)
		for to = from; to < len(items) && items[to].Queue == name; to++ {
			if !results[to].Duplicate {
				stored++
			}
		}
		first := !slices.ContainsFunc(items[:from], func(i queue.PushItem) bool { return i.Queue == name })
		r.count(Key{Queue: name}, func(t *tally) {
			t.PushMessages += stored
			if first {
				t.PushRequests++
			}
		})
	}
}

// Transacted counts an applied transaction and its operations. It counts one transaction for each queue of the
// operations.
func (r *Recorder) Transacted(tx *queue.Transaction, result *queue.TransactionResult) {
	seen := map[string]bool{}
	for i := range result.Operations {
		op, done := &tx.Operations[i], &result.Operations[i]
		key := Key{}
		if op.Push != nil {
			key.Queue = op.Push.Queue
		} else {
			key = keyOf(op.Ack, done.Ack)
		}
		r.count(key, func(t *tally) {
			if !seen[key.Queue] {
				t.Transactions++
			}
			switch {
			case op.Push == nil:
				t.acknowledged(done.Ack)
			case !done.Push.Duplicate:
				t.PushMessages++
			}
		})
		seen[key.Queue] = true
	}
}

// Acknowledged counts an answered ack request. The request counts only for the queue and group of its first item.
func (r *Recorder) Acknowledged(items []queue.AckItem, results []queue.AckResult) {
	for from, to := 0, 0; from < len(results); from = to {
		key := keyOf(&items[from], &results[from])
		for to = from; to < len(results) && keyOf(&items[to], &results[to]) == key; to++ {
		}
		r.count(key, func(t *tally) {
			if from == 0 {
				t.AckRequests++
			}
			for i := from; i < to; i++ {
				t.acknowledged(&results[i])
			}
		})
	}
}

func keyOf(item *queue.AckItem, result *queue.AckResult) Key {
	if result.Resolved {
		return Key{result.Queue, item.Group}
	}
	return Key{Queue: Other}
}

// Delivered counts a delivery whose answer was just written. See httpapi.Metrics for how an age is measured.
// The request counts only for the queue of the first message.
func (r *Recorder) Delivered(d *queue.Delivery) {
	sinceClaim := time.Since(d.ReceivedAt)
	for from, to := 0, 0; from < len(d.Messages); from = to {
		name := d.Messages[from].Partition.Queue
		for to = from; to < len(d.Messages) && d.Messages[to].Partition.Queue == name; to++ {
		}
		r.count(Key{name, d.Group}, func(t *tally) {
			if from == 0 {
				t.PopRequests++
			}
			t.PopMessages += int64(to - from)
			if d.LeaseID.IsZero() { // autoAck
				t.AckSuccess += int64(to - from)
			}
			for i := from; i < to; i++ {
				if m := &d.Messages[i]; m.Attempt <= 1 {
					t.delivered(d.DatabaseNow.Sub(m.CreatedAt) + sinceClaim)
				}
			}
		})
	}
}

// Empty counts a pop that was answered without a message. A pop that waited does not make a minute busy.
func (r *Recorder) Empty(req *queue.PopRequest) {
	key := Key{req.Queue, req.Group}
	if req.Tags != nil {
		key = Key{Queue: Other}
	}
	r.change(key, func(t *tally) {
		t.busy = t.busy || req.Wait <= 0
		t.PopRequests++
		t.PopEmpty++
	})
}

// DatabaseFailed counts a request that failed because of the database.
func (r *Recorder) DatabaseFailed() { r.dbErrors.Add(1) }

// OnPartitionsCreated implements events.Handler.
func (r *Recorder) OnPartitionsCreated(queueName string, n int) {
	r.count(Key{Queue: queueName}, func(t *tally) { t.PartitionsCreated += int64(n) })
}

// Removed counts the messages that a sweep deleted, by rule.
func (r *Recorder) Removed(queueName string, retention, completed, evicted int64) {
	if retention+completed+evicted == 0 {
		return
	}
	r.count(Key{Queue: queueName}, func(t *tally) {
		t.RemovedRetention += retention
		t.RemovedCompleted += completed
		t.RemovedEvicted += evicted
	})
}

// PartitionRemoved counts a partition that a sweep deleted.
func (r *Recorder) PartitionRemoved(queueName string) {
	r.count(Key{Queue: queueName}, func(t *tally) { t.PartitionsDeleted++ })
}

// Other is the queue name for the counts beyond a bound, and for events of an unknown queue.
const Other = "(other)"

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
	// AckSuccess counts the applied acknowledgments. DeadLetters counts the acknowledgments that made a dead letter.
	AckRequests int64 `json:"ack_requests" db:"ack_requests"`
	AckSuccess  int64 `json:"ack_success" db:"ack_success"`
	AckFailed   int64 `json:"ack_failed" db:"ack_failed"`
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
	// busy is true if the Writer must write a row for these counts.
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

// messages returns the number that orders keys: the busiest key has the most messages.
func (t *tally) messages() int64 { return t.PushMessages + t.PopMessages + t.AckSuccess }

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
