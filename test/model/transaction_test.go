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
	// failed are the operations that prevent the transaction. fenced: a required lease prevents it.
	failed map[int]bool
	fenced bool
	// again: it was applied before.
	again   bool
	pushes  []stored
	answers []verdict
}

func (o outcome) applied() bool { return len(o.failed) == 0 && !o.fenced }

// transact applies everything or nothing. Partitions are created unless the transaction is invalid.
func (w *world) transact(tx *queue.Transaction) outcome {
	out := outcome{failed: map[int]bool{}}
	type name struct{ partition, transactionID string }
	pushedAt := map[name]int{}
	var items []queue.PushItem
	var acks []queue.AckItem
	var pushAt, ackAt []int
	for i, op := range tx.Operations {
		if op.Ack != nil {
			acks, ackAt = append(acks, *op.Ack), append(ackAt, i)
			if op.Ack.Status == queue.AckUnknown {
				out.failed[i] = true
			}
			continue
		}
		items, pushAt = append(items, *op.Push), append(pushAt, i)
		if _, twice := pushedAt[name{op.Push.Partition, op.Push.TransactionID}]; twice && op.Push.TransactionID != "" {
			out.failed[i] = true
		} else {
			pushedAt[name{op.Push.Partition, op.Push.TransactionID}] = i
		}
	}
	if !out.applied() {
		return out
	}
	for _, item := range items {
		w.open(item.Partition)
	}
	if w.has(tx) {
		out.again = true
		return out
	}
	before := w.clone()
	covers := func(p *place) bool { return slices.Contains(tx.RequiredLeases, p.lease.String()) }
	for _, text := range tx.RequiredLeases {
		lease, _ := queue.ParseID(text) // anyLease draws only valid ids
		out.fenced = out.fenced || !slices.ContainsFunc(w.holders(lease), func(p *place) bool { return p.live })
	}
	for at := range acks {
		ack := &acks[at]
		id, _ := queue.ParseID(ack.PartitionID)
		l := w.laneOf(id)
		if i, ok := pushedAt[name{l.name, ack.TransactionID}]; ok && i > ackAt[at] && l.find(ack.TransactionID) == nil {
			ack.TransactionID = "not stored yet"
		}
		if p := l.places[ack.Group]; len(tx.RequiredLeases) > 0 && ack.LeaseID == "" && p != nil && (!p.live || !covers(p)) {
			out.failed[ackAt[at]] = true
		}
	}
	out.pushes = w.push(items)
	for i, one := range out.pushes {
		if one.duplicate {
			out.failed[pushAt[i]] = true
		}
	}
	out.answers = w.ack(acks)
	for i, one := range out.answers {
		if !one.success {
			out.failed[ackAt[i]] = true
		}
	}
	if !out.applied() {
		*w = *before
	}
	return out
}

// has reports whether messages of a transaction with given ids are stored.
func (w *world) has(tx *queue.Transaction) bool {
	for _, op := range tx.Operations {
		if op.Push == nil || op.Push.TransactionID == "" {
			continue
		}
		if one := w.lanes[op.Push.Partition].find(op.Push.TransactionID); one != nil && one.payload == string(op.Push.Payload) {
			return true // payloads are numbered
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
			if id, err := queue.ParseID(op.Ack.PartitionID); err != nil || m.world.laneOf(id) == nil {
				return // of a deleted queue
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
		l := m.world.lanes[rapid.SampledFrom(partitions).Draw(r, "partition")]
		if l == nil || l.id.IsZero() || rapid.Bool().Draw(r, "push") {
			m.payloads++
			tx.Operations = append(tx.Operations, queue.Operation{Push: &queue.PushItem{
				Queue: m.queue, Partition: rapid.SampledFrom(partitions).Draw(r, "to"),
				TransactionID: rapid.SampledFrom([]string{"", "t1", "t2", "t3", "t4", "t5", "t6"}).Draw(r, "transaction"),
				Payload:       fmt.Appendf(nil, `{"n": %d}`, m.payloads),
			}})
			continue
		}
		ack := queue.AckItem{
			TransactionID: "t1", PartitionID: l.id.String(), Group: rapid.SampledFrom(groups).Draw(r, "group"), Status: drawStatus(r),
			LeaseID: rapid.SampledFrom([]string{"", "", m.anyLease(r).String()}).Draw(r, "lease"),
		}
		if seq := rapid.IntRange(0, len(l.log)).Draw(r, "message"); seq > 0 {
			ack.TransactionID = l.log[seq-1].transactionID
		}
		tx.Operations = append(tx.Operations, queue.Operation{Ack: &ack})
	}
	if rapid.IntRange(0, 2).Draw(r, "fenced") == 2 {
		tx.RequiredLeases = append(tx.RequiredLeases, m.anyLease(r).String())
	}
	return tx
}

// compare compares the answers and learns the ids.
func (m *machine) compare(r *rapid.T, tx *queue.Transaction, want outcome, result *queue.TransactionResult) {
	var said, model, got []string
	var pushed []queue.PushResult
	acked := 0
	for i, op := range tx.Operations {
		answer := &result.Operations[i]
		model, got = append(model, fmt.Sprint(want.failed[i])), append(got, fmt.Sprint(answer.Error != ""))
		switch {
		case op.Push != nil:
			said = append(said, "push "+op.Push.Partition+"/"+op.Push.TransactionID)
			pushed = append(pushed, *answer.Push)
			if l := m.world.lanes[op.Push.Partition]; l != nil && l.id.IsZero() {
				l.id = answer.Push.PartitionID
			}
		case want.applied() && !want.again:
			v := want.answers[acked]
			model = append(model, fmt.Sprintf("%t %t", v.dead, v.released))
			got = append(got, fmt.Sprintf("%t %t", answer.Ack.DeadLettered, answer.Ack.LeaseReleased))
			fallthrough
		default:
			acked++
			said = append(said, fmt.Sprintf("%s %s for %s under %q", m.messageText(*op.Ack), statusText[op.Ack.Status], op.Ack.Group, op.Ack.LeaseID))
		}
	}
	model, got = append(model, fmt.Sprint(want.applied())), append(got, fmt.Sprint(result.Applied))
	if want.applied() && !want.again && result.Applied {
		m.learn(r, want.pushes, pushed)
		model, got = append(model, fmt.Sprint(want.pushes)), append(got, fmt.Sprint(m.names.pushed(pushed)))
	}
	verb := "transact " + strings.Join(said, ", ") + fmt.Sprintf(" requiring %v", tx.RequiredLeases)
	m.agree(r, verb, strings.Join(model, "; "), strings.Join(got, "; "))
}
