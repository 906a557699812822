package check_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// choose returns a random number from 0 to n-1.
type choose func(n int) int

// mutation breaks a correct run. The rule must report it.
type mutation struct {
	name, rule string
	// fits selects the operations that spoil may break. If fits is nil, spoil breaks the state.
	fits func(r *run, o *history.Operation) bool
	// spoil breaks the run. o is an operation that fits, with a copy of its items. spoil returns false if it cannot
	// break it.
	spoil func(r *run, o *history.Operation, choose choose) bool
}

// apply breaks a run. It returns false if the run has no suitable operation.
func (m *mutation) apply(r *run, choose choose) bool {
	if m.fits == nil {
		return m.spoil(r, nil, choose)
	}
	o := r.pick(choose, func(o *history.Operation) bool { return m.fits(r, o) })
	return o != nil && m.spoil(r, o, choose)
}

// clone copies the parts of a run that mutations change.
func (r *run) clone() *run {
	c := *r
	c.operations, c.state.Samples, c.state.Partitions = slices.Clone(r.operations), slices.Clone(r.state.Samples), slices.Clone(r.state.Partitions)
	for i := range c.state.Partitions {
		p := &c.state.Partitions[i]
		p.Log, p.Cursors = slices.Clone(p.Log), slices.Clone(p.Cursors)
	}
	return &c
}

// failed reports whether an ack of the group may have dead-lettered the message.
func (r *run) failed(group string, message history.Item) bool {
	return slices.ContainsFunc(r.operations, func(o history.Operation) bool {
		return o.Group == group && slices.ContainsFunc(o.Items, func(item history.Item) bool {
			return item.Status == "failed" && item.Partition == message.Partition && item.TransactionID == message.TransactionID
		})
	})
}

// pick returns a random operation that fits, with a copy of its items, or nil.
func (r *run) pick(choose choose, fits func(*history.Operation) bool) *history.Operation {
	var fitting []int
	for i := range r.operations {
		if fits(&r.operations[i]) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	o := &r.operations[fitting[choose(len(fitting))]]
	o.Items = slices.Clone(o.Items)
	return o
}

func delivers(o *history.Operation) bool { return o.Kind == history.Pop && len(o.Items) > 0 }

func answeredPush(o *history.Operation) bool {
	return o.Kind == history.Push && o.Outcome == history.Done
}

// last adds an operation that begins one second after all other operations.
func (r *run) last(o history.Operation) {
	for _, other := range r.operations {
		o.ID, o.Begin = max(o.ID, other.ID+1), max(o.Begin, other.End+time.Second)
	}
	o.Queue, o.End = "q", o.Begin+time.Millisecond
	r.operations = append(r.operations, o)
}

// cursorOf returns the final cursor of a group in a partition.
func (r *run) cursorOf(partition, group string) *check.Cursor {
	for i := range r.state.Partitions {
		p := &r.state.Partitions[i]
		if at := slices.IndexFunc(p.Cursors, func(c check.Cursor) bool { return c.Group == group }); p.Name == partition && at >= 0 {
			return &p.Cursors[at]
		}
	}
	return nil
}

func leased(_ *run, o *history.Operation) bool { return delivers(o) && o.LeaseID != "" }

func anyDelivery(_ *run, o *history.Operation) bool { return delivers(o) }

func newPush(_ *run, o *history.Operation) bool {
	return answeredPush(o) && o.Transaction == "" && !o.Items[0].Duplicate
}

// deadLettered returns the index of the first dead-lettered item, or -1.
func deadLettered(o *history.Operation) int {
	return slices.IndexFunc(o.Items, func(item history.Item) bool { return item.DeadLettered })
}

func (r *run) partition(name string) *check.Partition {
	return &r.state.Partitions[slices.IndexFunc(r.state.Partitions, func(p check.Partition) bool { return p.Name == name })]
}

var mutations = []mutation{
	{"a message is never delivered", "delivered", func(r *run, o *history.Operation) bool {
		return delivers(o) && !r.failed(o.Group, o.Items[0])
	}, func(r *run, o *history.Operation, _ choose) bool {
		lost, group := o.Items[0], o.Group
		for i := range r.operations {
			if o := &r.operations[i]; delivers(o) && o.Group == group {
				o.Items = slices.DeleteFunc(slices.Clone(o.Items), func(item history.Item) bool {
					return item.Partition == lost.Partition && item.TransactionID == lost.TransactionID
				})
			}
		}
		return true
	}},
	{"two messages of a delivery are swapped", "order", func(_ *run, o *history.Operation) bool {
		return delivers(o) && len(o.Items) > 1 && o.Items[0].Partition == o.Items[1].Partition
	}, func(_ *run, o *history.Operation, _ choose) bool {
		o.Items[0], o.Items[1] = o.Items[1], o.Items[0]
		return true
	}},
	{"a message in the middle of a delivery is left out", "order", func(r *run, o *history.Operation) bool {
		return delivers(o) && len(o.Items) > 2 && o.Items[0].Partition == o.Items[2].Partition && !r.failed(o.Group, o.Items[1])
	}, func(_ *run, o *history.Operation, _ choose) bool {
		o.Items = slices.Delete(o.Items, 1, 2)
		return true
	}},
	{"a lease is given twice", "lease", leased, func(r *run, o *history.Operation, choose choose) bool {
		other := r.pick(choose, func(p *history.Operation) bool { return leased(r, p) && p != o })
		if other != nil {
			o.LeaseID = other.LeaseID
		}
		return other != nil
	}},
	{"an ack under a stale lease is accepted", "lease", func(r *run, o *history.Operation) bool {
		return leased(r, o) && slices.ContainsFunc(r.operations, func(p history.Operation) bool {
			return leased(r, &p) && p.Group == o.Group && p.Begin > o.End &&
				slices.ContainsFunc(p.Items, func(item history.Item) bool { return item.Partition == o.Items[0].Partition })
		})
	}, func(r *run, o *history.Operation, _ choose) bool {
		item := o.Items[0]
		item.Status, item.Accepted = "completed", true
		r.last(history.Operation{Kind: history.Ack, Outcome: history.Done, Group: o.Group, LeaseID: o.LeaseID, Items: []history.Item{item}})
		return true
	}},
	{"a completed message is delivered again", "again", func(_ *run, o *history.Operation) bool {
		return o.Kind == history.Ack && o.Outcome == history.Done && o.Items[0].Status == "completed" && o.Items[0].Accepted
	}, func(r *run, o *history.Operation, _ choose) bool {
		item := history.Item{Partition: o.Items[0].Partition, TransactionID: o.Items[0].TransactionID}
		r.last(history.Operation{Kind: history.Pop, Outcome: history.Done, Group: o.Group, LeaseID: "more", Items: []history.Item{item}})
		return true
	}},
	{"a delivery has another message id", "dedup", anyDelivery, func(_ *run, o *history.Operation, choose choose) bool {
		o.Items[choose(len(o.Items))].MessageID = "another"
		return true
	}},
	{"two pushes of a message are answered as new", "dedup", newPush, func(r *run, o *history.Operation, _ choose) bool {
		r.last(history.Operation{Kind: history.Push, Outcome: history.Done, Items: o.Items[:1]})
		return true
	}},
	{"a stored message disappears", "stored", newPush, func(r *run, o *history.Operation, choose choose) bool {
		item := o.Items[choose(len(o.Items))]
		p := r.partition(item.Partition)
		p.Log = slices.DeleteFunc(p.Log, func(m check.Message) bool { return m.TransactionID == item.TransactionID })
		return true
	}},
	{"a refused push is stored", "stored", func(r *run, o *history.Operation) bool {
		return answeredPush(o) && !slices.ContainsFunc(r.operations, func(p history.Operation) bool {
			return p.ID != o.ID && p.Kind == history.Push && slices.ContainsFunc(p.Items, func(item history.Item) bool {
				return item.TransactionID == o.Items[0].TransactionID
			})
		})
	}, func(_ *run, o *history.Operation, _ choose) bool {
		o.Outcome = history.Refused
		return true
	}},
	{"an unknown message is delivered", "unpushed", anyDelivery, func(_ *run, o *history.Operation, choose choose) bool {
		o.Items[choose(len(o.Items))].TransactionID = "unknown"
		return true
	}},
	{"a late push is stored first", "push-order", newPush, func(r *run, o *history.Operation, _ choose) bool {
		item := o.Items[0]
		item.TransactionID, item.MessageID = "late", "late"
		r.last(history.Operation{Kind: history.Push, Outcome: history.Done, Items: []history.Item{item}})
		p := r.partition(item.Partition)
		at := slices.IndexFunc(p.Log, func(m check.Message) bool { return m.TransactionID == o.Items[0].TransactionID })
		p.Log = slices.Insert(p.Log, at, check.Message{MessageID: "late", TransactionID: "late"})
		for n := range p.Log {
			p.Log[n].Seq = int64(n + 1)
		}
		return true
	}},
	{"a cursor moves back", "cursor", nil, func(r *run, _ *history.Operation, choose choose) bool {
		p := r.state.Partitions[choose(len(r.state.Partitions))]
		c := p.Cursors[choose(len(p.Cursors))]
		r.state.Samples = append(r.state.Samples, check.Sample{
			At: time.Hour, Queue: "q", Partition: p.Name, ID: p.ID, Group: c.Group, Committed: c.Committed + 1, LastSeq: p.LastSeq,
		})
		return true
	}},
	{"last_seq is wrong", "counts", nil, func(r *run, _ *history.Operation, choose choose) bool {
		r.state.Partitions[choose(len(r.state.Partitions))].LastSeq++
		return true
	}},
	{"a dead letter is missing", "dead", func(_ *run, o *history.Operation) bool { return deadLettered(o) >= 0 },
		func(r *run, o *history.Operation, _ choose) bool {
			r.cursorOf(o.Items[deadLettered(o)].Partition, o.Group).Dead = nil
			return true
		}},
	{"a cursor stays before the end", "leftover", nil, func(r *run, _ *history.Operation, choose choose) bool {
		p := r.state.Partitions[choose(len(r.state.Partitions))]
		c := &p.Cursors[choose(len(p.Cursors))]
		if p.LastSeq == 0 || slices.Contains(c.Dead, p.LastSeq) {
			return false
		}
		c.Committed = p.LastSeq - 1
		return true
	}},
	{"a waiting consumer is not woken", "stuck", nil, func(r *run, _ *history.Operation, choose choose) bool {
		p := &r.state.Partitions[choose(len(r.state.Partitions))]
		c := &p.Cursors[choose(len(p.Cursors))]
		item := history.Item{Partition: p.Name, TransactionID: "waits", MessageID: "waits"}
		p.LastSeq++
		p.Log = append(p.Log, check.Message{Seq: p.LastSeq, MessageID: "waits", TransactionID: "waits"})
		c.Committed, c.Consumed = c.Committed+1, c.Consumed+1
		r.options = check.Options{WakeBound: time.Second / 2, LeaseDuration: liveLease}
		r.last(history.Operation{Kind: history.Push, Outcome: history.Done, Items: []history.Item{item}})
		r.last(history.Operation{Kind: history.Pop, Outcome: history.Done, Group: c.Group, Wait: time.Minute})
		r.operations[len(r.operations)-1].End += time.Second
		r.last(history.Operation{Kind: history.Pop, Outcome: history.Done, Group: c.Group, LeaseID: "more", Items: []history.Item{item}})
		return true
	}},
}

// noticed requires that the rule reports a violation, both for the complete run and for the part that Cut returns.
func noticed(t require.TestingT, r *run, rule string) {
	found := r.judge()
	at := slices.IndexFunc(found, func(v check.Violation) bool { return v.Rule == rule })
	require.GreaterOrEqual(t, at, 0, "the rule %s must report a violation; reported: %v", rule, found)
	cut := check.Run(check.Cut(r.operations, found[at]), check.CutState(r.state, found[at]), r.options)
	require.True(t, slices.ContainsFunc(cut, func(v check.Violation) bool { return v.Rule == rule }),
		"the rule %s must report a violation of the cut history; reported: %v", rule, cut)
}
