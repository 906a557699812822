package history

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	shards = 16
	// maxKeys is how many keys have counts of their own at a time. 1 key needs about 700 bytes.
	maxKeys = 4096
)

// Recorder counts what this instance does. It is safe for concurrent use, and its methods do not block.
type Recorder struct {
	events.Nop
	seed   maphash.Seed
	keys   atomic.Int64
	shards [shards]shard
	// dbErrors counts requests that failed because of the database.
	dbErrors atomic.Int64

	gathering sync.Mutex
	// pending are the counts that were taken from the shards and are not in a row yet, by key. totals are
	// the counts since the start, by queue. Both are guarded by gathering.
	pending map[Key]*tally
	totals  map[string]*Counts
	// maxTotals is how many queues have totals of their own.
	maxTotals int
	// OnCount is called after each count that is worth a row. It is set before the first count, must not
	// block, and may be nil.
	OnCount func()
}

type shard struct {
	mu   sync.Mutex
	keys map[Key]*tally
	_    [40]byte // one cache line for each lock
}

// NewRecorder returns a Recorder that keeps totals for as many queues.
func NewRecorder(maxTotals int) *Recorder {
	return &Recorder{seed: maphash.MakeSeed(), pending: map[Key]*tally{}, totals: map[string]*Counts{}, maxTotals: maxTotals}
}

// count changes the counts of a key. The key is worth a row.
func (r *Recorder) count(key Key, change func(t *tally)) {
	r.change(key, func(t *tally) {
		t.busy = true
		change(t)
	})
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

// Pushed counts an answered push. A request counts once for each of its queues.
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

// Transacted counts an applied transaction and its operations. It counts once for each of its queues.
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

// Acknowledged counts an answered call of acknowledgments. It counts as one request of the first group.
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
// It counts as one request of its first queue.
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

// Empty counts a pop that was answered without a message. A pop that waited is not worth a row.
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
