package store

import (
	"sync"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// deliveredSize is how many messages the store remembers as delivered; some 100
// bytes each.
const deliveredSize = 65536

// delivered remembers where the messages of the latest leases are in their logs,
// so that most acknowledgments need not look for them. A message's seq never
// changes, so what is remembered stays true; what is not is looked up.
type delivered struct {
	mu     sync.Mutex
	leases map[queue.ID]*lease
	// order are the leases, oldest first, and size their messages.
	order []queue.ID
	size  int
}

// lease is what one lease delivered, in the order of the delivery. It is not
// changed any more.
type lease struct {
	partitions   []int64
	seqs         []int64
	transactions []string
}

func newDelivered() *delivered { return &delivered{leases: map[queue.ID]*lease{}} }

// remember notes a delivery and forgets the oldest ones.
func (d *delivered) remember(delivery *queue.Delivery, partitions []int64) {
	n := len(delivery.Messages)
	if delivery.LeaseID.IsZero() || n == 0 || n > deliveredSize {
		return
	}
	l := &lease{partitions: partitions, seqs: make([]int64, n), transactions: make([]string, n)}
	for i := range delivery.Messages {
		l.seqs[i], l.transactions[i] = delivery.Messages[i].Seq, delivery.Messages[i].TransactionID
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.leases[delivery.LeaseID]; known {
		return
	}
	d.leases[delivery.LeaseID] = l
	d.order = append(d.order, delivery.LeaseID)
	d.size += n
	for d.size > deliveredSize {
		d.size -= len(d.leases[d.order[0]].seqs)
		delete(d.leases, d.order[0])
		d.order = d.order[1:]
	}
}

// forget drops what a lease delivered: its acknowledgments are looked up.
func (d *delivered) forget(id queue.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.leases[id]; l != nil {
		d.size -= len(l.seqs)
		d.leases[id] = &lease{} // its place in order stays
	}
}

// of returns what a lease delivered, nil when nobody remembers.
func (d *delivered) of(id queue.ID) *lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leases[id]
}

// seeker finds messages of leases. Acknowledgments mostly come in the order of
// the delivery, so it looks behind the last one first.
type seeker struct {
	known *delivered
	// name is the lease as the caller wrote it, at the place of the next message.
	name  string
	lease *lease
	at    int
	// places is made when the order is another one.
	places map[deliveredName]int64
}

type deliveredName struct {
	partition   int64
	transaction string
}

// seq returns the place of a message that a lease delivered, 0 when nobody
// remembers.
func (s *seeker) seq(leaseID string, partition int64, transaction string) int64 {
	if leaseID != s.name {
		*s = seeker{known: s.known, name: leaseID}
		if id, err := queue.ParseID(leaseID); err == nil {
			s.lease = s.known.of(id)
		}
	}
	l := s.lease
	if l == nil {
		return 0
	}
	if at := s.at; at < len(l.seqs) && l.partitions[at] == partition && l.transactions[at] == transaction {
		s.at++
		return l.seqs[at]
	}
	if s.places == nil {
		s.places = make(map[deliveredName]int64, len(l.seqs))
		for i, seq := range l.seqs {
			s.places[deliveredName{l.partitions[i], l.transactions[i]}] = seq
		}
	}
	return s.places[deliveredName{partition, transaction}]
}
