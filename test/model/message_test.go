package model_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// memory is the memory of an instance, by lease: the seqs of delivered messages, by partition and transaction id.
type memory map[queue.ID]map[[2]string]int64

func (known memory) remember(d *queue.Delivery) {
	places := map[[2]string]int64{}
	for _, msg := range d.Messages {
		places[[2]string{msg.Partition.ID.String(), msg.TransactionID}] = msg.Seq
	}
	known[d.LeaseID] = places
}

// ForgetLease announces to every instance that a lease is to be forgotten, after a message was deleted. Tests of one
// service run one after the other.
func (h *house) ForgetLease(lease queue.ID) {
	for _, stores := range h.stores {
		for _, s := range stores {
			s.ForgetLease(lease)
		}
	}
}

// Ready wakes waiting pops. The model has none.
func (h *house) Ready([]queue.Ready) {}

// seqOf returns the seq of the message that an ack names, or 0. An instance remembers the seqs of its deliveries, also
// of messages deleted since.
func (w *world) seqOf(l *lane, item queue.AckItem) int64 {
	if lease, err := queue.ParseID(strings.ToLower(item.LeaseID)); err == nil {
		if seq := w.memory[lease][[2]string{l.id.String(), item.TransactionID}]; seq != 0 {
			return seq
		}
	}
	if one := l.find(item.TransactionID); one != nil {
		return one.seq
	}
	return 0
}

// deleteMessage deletes a message from the log and returns the leases that may hold it. Cursors before it skip it.
func (w *world) deleteMessage(l *lane, seq int64) (forgotten []queue.ID) {
	l.log[seq-1].gone = true
	for _, p := range l.places {
		one, put := p.redrives[seq]
		held := put && p.leaseEnd < 0 && one.lease == p.lease
		delete(p.letters, seq)
		delete(p.redrives, seq)
		if !put && p.committed >= seq {
			continue
		}
		forgotten = append(forgotten, p.lease)
		before := *p
		p.skip = slices.Clone(p.skip)
		if seq > p.committed && !slices.Contains(p.skip, seq) {
			p.skip = append(p.skip, seq)
		}
		for slices.Contains(p.skip, p.committed+1) {
			p.committed++
		}
		p.skip = slices.DeleteFunc(p.skip, func(seq int64) bool { return seq <= p.committed })
		slices.Sort(p.skip)
		moved := p.committed > before.committed
		if moved {
			p.failures, p.rests, p.attempts = 0, false, min(p.attempts, 1)
			if p.committed >= p.leaseEnd {
				p.attempts = 0
			}
		}
		switch leased := !p.lease.IsZero(); {
		case leased && p.leaseEnd < 0 && held && p.leaseEnd == -1, leased && p.leaseEnd >= 0 && p.committed >= p.leaseEnd,
			!leased && (moved || put):
			w.rearm(l, p)
		case held:
			p.leaseEnd++
		}
	}
	for _, p := range l.places {
		w.wake(l, p)
	}
	return forgotten
}

// deleteMessage deletes one message, which may already be deleted.
func (m *machine) deleteMessage(r *rapid.T) {
	m.step()
	l := m.world.lanes[rapid.SampledFrom(partitions).Draw(r, "partition")]
	if l == nil || len(l.log) == 0 {
		return
	}
	one := l.log[rapid.IntRange(0, len(l.log)-1).Draw(r, "message")]
	existed, err := m.letters.Delete(m.t.Context(), l.id, one.transactionID)
	require.NoError(r, err)
	want := false
	if there := l.find(one.transactionID); there != nil {
		want = true
		for _, lease := range m.world.deleteMessage(l, there.seq) {
			for _, known := range m.memories {
				delete(known, lease)
			}
		}
	}
	m.agree(r, fmt.Sprintf("delete %s#%d", l.name, one.seq), fmt.Sprint(want), fmt.Sprint(existed))
}
