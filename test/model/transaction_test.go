package model_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// outcome is the result of a transaction.
type outcome struct {
	// failed are the indexes of the operations that prevent the transaction. fenced means that a required lease has ended.
	failed map[int]bool
	fenced bool
	// again means that the same transaction was applied before.
	again   bool
	pushes  []stored
	answers []ackAnswer
}

func (o outcome) applied() bool { return len(o.failed) == 0 && !o.fenced }

// pushKey names a pushed message.
type pushKey struct{ partition, transactionID string }

// parts are the operations of a transaction by kind. pushAt and ackAt have their indexes in the transaction.
type parts struct {
	items         []queue.PushItem
	acks          []queue.AckItem
	pushAt, ackAt []int
	pushedAt      map[pushKey]int
}

// partsOf splits a transaction. It adds the indexes of invalid operations to failed.
func partsOf(tx *queue.Transaction, failed map[int]bool) parts {
	all := parts{pushedAt: map[pushKey]int{}}
	for i, op := range tx.Operations {
		if op.Ack != nil {
			all.acks, all.ackAt = append(all.acks, *op.Ack), append(all.ackAt, i)
			if op.Ack.Status == queue.AckUnknown {
				failed[i] = true
			}
			continue
		}
		all.items, all.pushAt = append(all.items, *op.Push), append(all.pushAt, i)
		key := pushKey{op.Push.Partition, op.Push.TransactionID}
		if _, twice := all.pushedAt[key]; twice && op.Push.TransactionID != "" {
			failed[i] = true
		} else {
			all.pushedAt[key] = i
		}
	}
	return all
}

// transact applies all operations or none. If it applies none, it creates no partition.
func (w *world) transact(tx *queue.Transaction) outcome {
	out := outcome{failed: map[int]bool{}}
	all := partsOf(tx, out.failed)
	if !out.applied() {
		return out
	}
	before := w.clone()
	for _, item := range all.items {
		w.open(item.Partition)
	}
	if w.has(tx) {
		out.again = true
		return out
	}
	covers := func(c *cursor) bool { return slices.Contains(tx.RequiredLeases, c.lease.String()) }
	for _, text := range tx.RequiredLeases {
		lease, _ := queue.ParseID(text) // cannot fail: anyLease draws only valid ids
		out.fenced = out.fenced || !slices.ContainsFunc(w.holders(lease), func(c *cursor) bool { return c.live })
	}
	for at := range all.acks {
		ack := &all.acks[at]
		id, _ := queue.ParseID(ack.PartitionID)
		p := w.partitionOf(id)
		if i, ok := all.pushedAt[pushKey{p.name, ack.TransactionID}]; ok && i > all.ackAt[at] && p.find(ack.TransactionID) == nil {
			ack.TransactionID = "not stored yet"
		}
		if c := p.cursors[ack.Group]; len(tx.RequiredLeases) > 0 && ack.LeaseID == "" && c != nil && (!c.live || !covers(c)) {
			out.failed[all.ackAt[at]] = true
		}
	}
	out.pushes = w.push(all.items)
	for i, one := range out.pushes {
		if one.duplicate {
			out.failed[all.pushAt[i]] = true
		}
	}
	out.answers = w.ack(all.acks)
	for i, one := range out.answers {
		if !one.success {
			out.failed[all.ackAt[i]] = true
		}
	}
	if !out.applied() {
		*w = *before
	}
	return out
}

// has reports whether a pushed message of the transaction is already stored. Only messages with a transaction id count.
func (w *world) has(tx *queue.Transaction) bool {
	for _, op := range tx.Operations {
		if op.Push == nil || op.Push.TransactionID == "" {
			continue
		}
		if one := w.partitions[op.Push.Partition].find(op.Push.TransactionID); one != nil && one.payload == string(op.Push.Payload) {
			return true // every payload is unique
		}
	}
	return false
}

// transact sends a transaction, or repeats the last applied one.
func (m *machine) transact(r *rapid.T) {
	s := m.store(r)
	tx := m.drawTransaction(r)
	if len(m.sent) > 0 && rapid.IntRange(0, 4).Draw(r, "again") == 4 {
		tx = m.sent[len(m.sent)-1]
	}
	for _, op := range tx.Operations {
		if op.Ack != nil {
			if id, err := queue.ParseID(op.Ack.PartitionID); err != nil || m.world.partitionOf(id) == nil {
				return // the partition belongs to a deleted queue
			}
		}
	}
	result, err := s.Transact(m.t.Context(), tx)
	require.NoError(r, err)
	require.Len(r, result.Operations, len(tx.Operations))
	want := m.world.transact(tx)
	m.compare(r, tx, want, &result)
	if result.Applied && !want.again {
		m.sent = append(m.sent, tx)
	}
}

func (m *machine) drawTransaction(r *rapid.T) *queue.Transaction {
	tx := &queue.Transaction{}
	for range rapid.IntRange(1, 4).Draw(r, "operations") {
		p := m.world.partitions[rapid.SampledFrom(partitions).Draw(r, "partition")]
		if p == nil || p.id.IsZero() || rapid.Bool().Draw(r, "push") {
			m.payloads++
			tx.Operations = append(tx.Operations, queue.Operation{Push: &queue.PushItem{
				Queue: m.queue, Partition: rapid.SampledFrom(partitions).Draw(r, "to"),
				TransactionID: rapid.SampledFrom([]string{"", "t1", "t2", "t3", "t4", "t5", "t6"}).Draw(r, "transaction"),
				Payload:       fmt.Appendf(nil, `{"n": %d}`, m.payloads),
			}})
			continue
		}
		ack := queue.AckItem{
			TransactionID: "t1", PartitionID: p.id.String(), Group: rapid.SampledFrom(groups).Draw(r, "group"), Status: drawStatus(r),
			LeaseID: rapid.SampledFrom([]string{"", "", m.anyLease(r).String()}).Draw(r, "lease"),
		}
		if seq := rapid.IntRange(0, len(p.log)).Draw(r, "message"); seq > 0 {
			ack.TransactionID = p.log[seq-1].transactionID
		}
		tx.Operations = append(tx.Operations, queue.Operation{Ack: &ack})
	}
	if rapid.IntRange(0, 2).Draw(r, "fenced") == 2 {
		tx.RequiredLeases = append(tx.RequiredLeases, m.anyLease(r).String())
	}
	return tx
}

// compare compares the answers and copies new ids into the model.
func (m *machine) compare(r *rapid.T, tx *queue.Transaction, want outcome, result *queue.TransactionResult) {
	var text, model, got []string
	var pushed []queue.PushResult
	acked := 0
	for i, op := range tx.Operations {
		answer := &result.Operations[i]
		model, got = append(model, fmt.Sprint(want.failed[i])), append(got, fmt.Sprint(answer.Error != ""))
		switch {
		case op.Push != nil:
			text = append(text, "push "+op.Push.Partition+"/"+op.Push.TransactionID)
			pushed = append(pushed, *answer.Push)
			if p := m.world.partitions[op.Push.Partition]; p != nil && p.id.IsZero() {
				p.id = answer.Push.PartitionID
			}
		case want.applied() && !want.again:
			v := want.answers[acked]
			model = append(model, fmt.Sprintf("%t %t", v.dead, v.released))
			got = append(got, fmt.Sprintf("%t %t", answer.Ack.DeadLettered, answer.Ack.LeaseReleased))
			fallthrough
		default:
			acked++
			text = append(text, fmt.Sprintf("%s %s for %s under %q", m.messageText(*op.Ack), statusText[op.Ack.Status], op.Ack.Group, op.Ack.LeaseID))
		}
	}
	model, got = append(model, fmt.Sprint(want.applied())), append(got, fmt.Sprint(result.Applied))
	if want.applied() && !want.again && result.Applied {
		m.learn(r, want.pushes, pushed)
		model, got = append(model, fmt.Sprint(want.pushes)), append(got, fmt.Sprint(m.names.pushed(pushed)))
	}
	verb := "transact " + strings.Join(text, ", ") + fmt.Sprintf(" requiring %v", tx.RequiredLeases)
	m.agree(r, verb, strings.Join(model, "; "), strings.Join(got, "; "))
}
