package live

import (
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxQueues is how many queues are counted in one second. The others are left out.
const maxQueues = 10_000

// counts are what happened since the last take.
type counts struct {
	mu     sync.Mutex
	since  time.Time
	queues map[string]*tally
	// first is when something happened first since the last take; zero: nothing did. onFirst is called then.
	// It must not block.
	first   time.Time
	onFirst func()
}

// note notes that something happens that is not counted.
func (c *counts) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked()
}

func (c *counts) noteLocked() {
	if c.first.IsZero() {
		c.first = time.Now()
		c.onFirst()
	}
}

// begun returns when something happened first since the last take; zero: nothing did.
func (c *counts) begun() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// tally counts messages of one queue.
type tally struct {
	pushed, delivered, acked, failed int64
	sweep                            api.SweepCounts
}

func (t *tally) busy() int64 { return t.pushed + t.delivered + t.acked + t.failed }

// change changes the tally of a queue.
func (c *counts) change(name string, change func(t *tally)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.queues[name]
	if t == nil {
		if len(c.queues) >= maxQueues {
			return
		}
		if c.queues == nil {
			c.queues = map[string]*tally{}
		}
		t = &tally{}
		c.queues[name] = t
	}
	c.noteLocked()
	change(t)
}

// take returns the counts and the time that they cover, and begins again.
func (c *counts) take(now time.Time) (map[string]*tally, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken, over := c.queues, now.Sub(c.since)
	c.queues, c.since, c.first = nil, now, time.Time{}
	return taken, over
}

// Pushed counts the stored messages of an answered push.
func (h *Hub) Pushed(items []queue.PushItem, results []queue.PushResult) {
	if !h.active.Load() {
		return
	}
	for from, to := 0, 0; from < len(items); from = to {
		name, stored := items[from].Queue, int64(0)
		for to = from; to < len(items) && items[to].Queue == name; to++ {
			if !results[to].Duplicate {
				stored++
			}
		}
		h.counts.change(name, func(t *tally) { t.pushed += stored })
	}
}

// Transacted counts an applied transaction.
func (h *Hub) Transacted(tx *queue.Transaction, result *queue.TransactionResult) {
	if !h.active.Load() {
		return
	}
	for i := range result.Operations {
		switch done := &result.Operations[i]; {
		case done.Ack != nil:
			h.acknowledged(done.Ack)
		case tx.Operations[i].Push != nil && !done.Push.Duplicate:
			h.counts.change(tx.Operations[i].Push.Queue, func(t *tally) { t.pushed++ })
		}
	}
}

// Delivered counts a delivery whose answer was written.
func (h *Hub) Delivered(d *queue.Delivery) {
	if !h.active.Load() {
		return
	}
	for from, to := 0, 0; from < len(d.Messages); from = to {
		name := d.Messages[from].Partition.Queue
		for to = from; to < len(d.Messages) && d.Messages[to].Partition.Queue == name; to++ {
		}
		h.counts.change(name, func(t *tally) {
			t.delivered += int64(to - from)
			if d.LeaseID.IsZero() { // autoAck
				t.acked += int64(to - from)
			}
		})
	}
}

// Empty counts nothing: a pop without a message changes no figure.
func (h *Hub) Empty(*queue.PopRequest) {}

// Acknowledged counts acknowledgments.
func (h *Hub) Acknowledged(_ []queue.AckItem, results []queue.AckResult) {
	if !h.active.Load() {
		return
	}
	for i := range results {
		h.acknowledged(&results[i])
	}
}

func (h *Hub) acknowledged(r *queue.AckResult) {
	if !r.Resolved {
		return
	}
	h.counts.change(r.Queue, func(t *tally) {
		if r.Success && !r.DeadLettered {
			t.acked++
		} else {
			t.failed++
		}
	})
}

// Removed counts the messages that a sweep deleted, by rule.
func (h *Hub) Removed(queueName string, retention, completed, evicted int64) {
	if h.active.Load() && retention+completed+evicted > 0 {
		h.counts.change(queueName, func(t *tally) {
			t.sweep.Retention += retention
			t.sweep.Completed += completed
			t.sweep.Evicted += evicted
		})
	}
}

// PartitionRemoved counts a partition that a sweep deleted.
func (h *Hub) PartitionRemoved(queueName string) {
	if h.active.Load() {
		h.counts.change(queueName, func(t *tally) { t.sweep.Partitions++ })
	}
}
