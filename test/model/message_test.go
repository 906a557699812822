package model_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// memory is what one instance remembers about delivered messages. It maps a lease to seqs, by partition and transaction id.
type memory map[queue.ID]map[[2]string]int64

// remember adds the delivery of a pop. An instance does not remember redriven messages.
func (w *world) remember(d *queue.Delivery) {
	places := map[[2]string]int64{}
	for _, msg := range d.Messages {
		if !w.partitionOf(msg.Partition.ID).cursors[d.Group].underRedelivery() {
			places[[2]string{msg.Partition.ID.String(), msg.TransactionID}] = msg.Seq
		}
	}
	w.memory[d.LeaseID] = places
}

// OnLeaseChanged makes every instance forget a lease after a message was deleted. Only one test uses a service at a time.
func (h *service) OnLeaseChanged(lease queue.ID) {
	for _, stores := range h.stores {
		for _, s := range stores {
			s.OnLeaseChanged(lease)
		}
	}
}

// Ready does nothing, because the model has no waiting pops.
func (h *service) Ready([]queue.Ready) {}

// seqOf returns the seq of the message that an ack names, or 0. An instance remembers the seqs of messages that it
// delivered from the log, even if a message was deleted later.
func (w *world) seqOf(p *partition, item queue.AckItem) int64 {
	if lease, err := queue.ParseID(strings.ToLower(item.LeaseID)); err == nil {
		if seq := w.memory[lease][[2]string{p.id.String(), item.TransactionID}]; seq != 0 {
			return seq
		}
	}
	if one := p.find(item.TransactionID); one != nil {
		return one.seq
	}
	return 0
}

// deleteMessage deletes a message from the log. Cursors before the message skip it. It returns the leases that may cover
// the message.
func (w *world) deleteMessage(p *partition, seq int64) (forgotten []queue.ID) {
	p.log[seq-1].gone = true
	for _, c := range p.cursors {
		one, put := c.redrives[seq]
		held := put && c.leaseEnd < 0 && one.lease == c.lease
		delete(c.deadLetters, seq)
		delete(c.redrives, seq)
		if !put && c.committed >= seq {
			continue
		}
		forgotten = append(forgotten, c.lease)
		before := *c
		c.skip = slices.Clone(c.skip)
		if seq > c.committed && !slices.Contains(c.skip, seq) {
			c.skip = append(c.skip, seq)
		}
		for slices.Contains(c.skip, c.committed+1) {
			c.committed++
		}
		c.skip = slices.DeleteFunc(c.skip, func(seq int64) bool { return seq <= c.committed })
		slices.Sort(c.skip)
		moved := c.committed > before.committed
		if moved {
			c.failures, c.delayed, c.attempts = 0, false, min(c.attempts, 1)
			if c.committed >= c.leaseEnd {
				c.attempts = 0
			}
		}
		switch leased := !c.lease.IsZero(); {
		case leased && c.leaseEnd < 0 && held && c.leaseEnd == -1, leased && c.leaseEnd >= 0 && c.committed >= c.leaseEnd,
			!leased && (moved || put):
			w.recomputeReady(p, c)
		case held:
			c.leaseEnd++
		}
	}
	for _, c := range p.cursors {
		w.wake(p, c)
	}
	return forgotten
}

// deleteMessage deletes one message. The message may already be deleted.
func (m *machine) deleteMessage(r *rapid.T) {
	m.step()
	p := m.world.partitions[rapid.SampledFrom(partitions).Draw(r, "partition")]
	if p == nil || len(p.log) == 0 {
		return
	}
	one := p.log[rapid.IntRange(0, len(p.log)-1).Draw(r, "message")]
	existed, err := m.letters.Delete(m.t.Context(), p.id, one.transactionID)
	require.NoError(r, err)
	want := false
	if there := p.find(one.transactionID); there != nil {
		want = true
		for _, lease := range m.world.deleteMessage(p, there.seq) {
			for _, known := range m.memories {
				delete(known, lease)
			}
		}
	}
	m.agree(r, fmt.Sprintf("delete %s#%d", p.name, one.seq), fmt.Sprint(want), fmt.Sprint(existed))
}
