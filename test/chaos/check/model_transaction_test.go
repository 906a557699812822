package check_test

import (
	"fmt"
	"slices"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// transact completes a delivery and pushes one message in one transaction. It repeats the transaction while the outcome
// is unknown.
func (m *model) transact() {
	known := slices.DeleteFunc(slices.Clone(m.held), func(h *holding) bool { return h.since > m.now })
	if len(known) == 0 {
		return
	}
	h := known[m.choose(len(known))]
	m.made++
	name, to := fmt.Sprintf("T%d", m.made), m.lanes[m.choose(len(m.lanes))]
	id, since := "of"+name, h.since
	for {
		items := slices.Clone(h.items)
		for i := range items {
			items[i].Status, items[i].MessageID = "completed", ""
		}
		pushed := history.Item{Partition: to.name, TransactionID: id}
		outcome := m.outcome()
		if outcome == history.Done || outcome == history.Unknown && m.choose(2) == 0 {
			if !m.apply(h, items, to, id) {
				outcome = history.Refused
			}
		}
		if outcome == history.Done {
			pushed.MessageID = to.messageID(id)
			for i := range items {
				items[i].Accepted = true
			}
		} else {
			for i := range items {
				items[i].Accepted = false
			}
		}
		o := m.note(history.Operation{Kind: history.Push, Outcome: outcome, Transaction: name, Items: []history.Item{pushed}}, since)
		m.note(history.Operation{Kind: history.Ack, Outcome: outcome, Transaction: name, Group: h.group, LeaseID: h.lease, Items: items}, since)
		both := m.run.operations[len(m.run.operations)-2:]
		both[1].Begin, both[1].End = o.Begin, o.End
		if outcome != history.Unknown {
			return
		}
		m.now, since = m.now+2*modelSlack, o.End
	}
}

// apply reports whether the transaction is applied now or was applied before. It is refused if a lease has ended.
func (m *model) apply(h *holding, items []history.Item, to *modelLane, id string) bool {
	if to.ordinals[id] > 0 {
		return true
	}
	for _, l := range m.lanes {
		c := l.cursors[h.group]
		if (c.lease != h.lease || c.until <= m.now) && slices.ContainsFunc(items, func(item history.Item) bool { return item.Partition == l.name }) {
			return false
		}
	}
	for _, l := range m.lanes {
		l.acknowledge(l.cursors[h.group], h.lease, items, m.now)
	}
	to.log = append(to.log, id)
	to.ordinals[id] = len(to.log)
	return true
}
