// Package delivered remembers the seqs of recently delivered messages by lease. So most acks need
// no query to find their messages.
//
// The seq of a message never changes, so an entry never becomes wrong. The cache holds only messages
// delivered from the log, not redriven messages. If a message is not in the cache, the ack looks it
// up in the database. Other packages below pkg/engine/store import this package.
package delivered

import (
	"sync"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxMessages is the maximum number of messages in the cache. A message needs about 100 bytes.
const maxMessages = 65536

// Cache remembers the deliveries of the latest leases. It is safe for concurrent use.
type Cache struct {
	mu     sync.Mutex
	leases map[queue.ID]*lease
	// order holds the leases, oldest first. size is the number of their messages.
	order []queue.ID
	size  int
}

// lease holds the messages that one lease delivered, in the order of the delivery. It is immutable.
type lease struct {
	messages []messageKey
	seqs     []int64
}

// New returns an empty Cache.
func New() *Cache { return &Cache{leases: map[queue.ID]*lease{}} }

// Remember adds a delivery, and drops the oldest deliveries while the cache is too large.
// partitions holds the partition id of each message. With 0, Seq never finds the message.
func (c *Cache) Remember(delivery *queue.Delivery, partitions []int64) {
	n := len(delivery.Messages)
	if delivery.LeaseID.IsZero() || n == 0 || n > maxMessages {
		return
	}
	l := &lease{messages: make([]messageKey, n), seqs: make([]int64, n)}
	for i := range delivery.Messages {
		l.messages[i] = messageKey{partitions[i], delivery.Messages[i].TransactionID}
		l.seqs[i] = delivery.Messages[i].Seq
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.leases[delivery.LeaseID]; known {
		return
	}
	c.leases[delivery.LeaseID] = l
	c.order = append(c.order, delivery.LeaseID)
	c.size += n
	for c.size > maxMessages {
		c.size -= len(c.leases[c.order[0]].seqs)
		delete(c.leases, c.order[0])
		c.order = c.order[1:]
	}
}

// Forget drops the messages of a lease.
func (c *Cache) Forget(id queue.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.leases[id]; l != nil {
		c.size -= len(l.seqs)
		c.leases[id] = &lease{} // order still holds the lease
	}
}

// lease returns the messages of a lease, or nil.
func (c *Cache) lease(id queue.ID) *lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leases[id]
}

// Finder finds messages of leases in a Cache. Acks mostly have the order of the delivery, so a
// Finder first tries the message after the last found message.
type Finder struct {
	cache *Cache
	// leaseText is the lease id as the caller wrote it. next is the index of the message to try
	// first.
	leaseText string
	lease     *lease
	next      int
	// index is built when acks have another order.
	index map[messageKey]int64
}

type messageKey struct {
	partition     int64
	transactionID string
}

// NewFinder returns a Finder for the acknowledgments of one call.
func (c *Cache) NewFinder() Finder { return Finder{cache: c} }

// Seq returns the seq of a message that a lease delivered, or 0 if the cache does not hold the
// message.
func (f *Finder) Seq(leaseID string, partition int64, transactionID string) int64 {
	if leaseID != f.leaseText {
		*f = Finder{cache: f.cache, leaseText: leaseID}
		if id, err := queue.ParseID(leaseID); err == nil {
			f.lease = f.cache.lease(id)
		}
	}
	l := f.lease
	if l == nil {
		return 0
	}
	key := messageKey{partition, transactionID}
	if at := f.next; at < len(l.seqs) && l.messages[at] == key {
		f.next++
		return l.seqs[at]
	}
	if f.index == nil {
		f.index = make(map[messageKey]int64, len(l.seqs))
		for i, seq := range l.seqs {
			f.index[l.messages[i]] = seq
		}
	}
	return f.index[key]
}
