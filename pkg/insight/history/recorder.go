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
	// maxKeys is how many keys are counted separately at a time. One key needs about 700 bytes.
	maxKeys = 4096
	// maxShardKeys is how many keys have counts of their own in a shard.
	maxShardKeys = maxKeys / shards
)

// Recorder counts the work of this instance. It is safe for concurrent use, and its methods do not block.
type Recorder struct {
	events.Nop
	seed   maphash.Seed
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
		if s.keys == nil {
			s.keys = map[Key]*tally{}
		}
		// Half of the places become free at a time, so that the sorting costs little for each new key.
		if len(s.keys) >= maxShardKeys {
			limit(s.keys, maxShardKeys/2, nil)
		}
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
				t.acknowledged(op.Ack, done.Ack)
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
				t.acknowledged(&items[i], &results[i])
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
