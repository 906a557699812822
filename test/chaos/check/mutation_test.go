package check_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// choose returns a number from 0 to n-1.
type choose func(n int) int

// mutation breaks a correct run. It returns the rule that must report it, or "" if the run offers no opportunity.
type mutation struct {
	name  string
	spoil func(r *run, choose choose) string
}

// clone copies what mutations change.
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

// pick returns one of the operations that fit, with a copy of its items to change, or nil.
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

// last adds an operation one second after everything else.
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

var mutations = []mutation{
	{"a message is never delivered", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool { return delivers(o) && !r.failed(o.Group, o.Items[0]) })
		if o == nil {
			return ""
		}
		lost := o.Items[0]
		group := o.Group
		for i := range r.operations {
			if o := &r.operations[i]; delivers(o) && o.Group == group {
				o.Items = slices.DeleteFunc(slices.Clone(o.Items), func(item history.Item) bool {
					return item.Partition == lost.Partition && item.TransactionID == lost.TransactionID
				})
			}
		}
		return "delivered"
	}},
	{"two of a delivery are swapped", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool {
			return delivers(o) && len(o.Items) > 1 && o.Items[0].Partition == o.Items[1].Partition
		})
		if o == nil {
			return ""
		}
		o.Items[0], o.Items[1] = o.Items[1], o.Items[0]
		return "order"
	}},
	{"one in the middle is left out", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool {
			return delivers(o) && len(o.Items) > 2 && o.Items[0].Partition == o.Items[2].Partition &&
				!r.failed(o.Group, o.Items[1])
		})
		if o == nil {
			return ""
		}
		o.Items = slices.Delete(o.Items, 1, 2)
		return "order"
	}},
	{"a lease is given twice", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool { return delivers(o) && o.LeaseID != "" })
		other := r.pick(choose, func(p *history.Operation) bool { return delivers(p) && p.LeaseID != "" && p != o })
		if other == nil {
			return ""
		}
		o.LeaseID = other.LeaseID
		return "lease"
	}},
	{"a stale lease is honoured", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool {
			return delivers(o) && o.LeaseID != "" && slices.ContainsFunc(r.operations, func(p history.Operation) bool {
				return delivers(&p) && p.LeaseID != "" && p.Group == o.Group && p.Begin > o.End &&
					slices.ContainsFunc(p.Items, func(item history.Item) bool { return item.Partition == o.Items[0].Partition })
			})
		})
		if o == nil {
			return ""
		}
		item := o.Items[0]
		item.Status, item.Accepted = "completed", true
		r.last(history.Operation{Kind: history.Ack, Outcome: history.Done, Group: o.Group, LeaseID: o.LeaseID, Items: []history.Item{item}})
		return "lease"
	}},
	{"a completed message comes again", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool {
			return o.Kind == history.Ack && o.Outcome == history.Done && o.Items[0].Status == "completed" && o.Items[0].Accepted
		})
		if o == nil {
			return ""
		}
		item := history.Item{Partition: o.Items[0].Partition, TransactionID: o.Items[0].TransactionID}
		r.last(history.Operation{Kind: history.Pop, Outcome: history.Done, Group: o.Group, LeaseID: "more", Items: []history.Item{item}})
		return "again"
	}},
	{"a delivery has another message id", func(r *run, choose choose) string {
		o := r.pick(choose, delivers)
		if o == nil {
			return ""
		}
		o.Items[choose(len(o.Items))].MessageID = "another"
		return "dedup"
	}},
	{"a message is new twice", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool {
			return answeredPush(o) && o.Transaction == "" && !o.Items[0].Duplicate
		})
		if o == nil {
			return ""
		}
		r.last(history.Operation{Kind: history.Push, Outcome: history.Done, Items: o.Items[:1]})
		return "dedup"
	}},
	{"a stored message disappears", func(r *run, choose choose) string {
		o := r.pick(choose, answeredPush)
		if o == nil {
			return ""
		}
		item := o.Items[choose(len(o.Items))]
		for i := range r.state.Partitions {
			if p := &r.state.Partitions[i]; p.Name == item.Partition {
				p.Log = slices.DeleteFunc(p.Log, func(m check.Message) bool { return m.TransactionID == item.TransactionID })
			}
		}
		return "stored"
	}},
	{"a refused push is stored", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool {
			return answeredPush(o) && !slices.ContainsFunc(r.operations, func(p history.Operation) bool {
				return p.ID != o.ID && p.Kind == history.Push && slices.ContainsFunc(p.Items, func(item history.Item) bool {
					return item.TransactionID == o.Items[0].TransactionID
				})
			})
		})
		if o == nil {
			return ""
		}
		o.Outcome = history.Refused
		return "stored"
	}},
	{"an unknown message is delivered", func(r *run, choose choose) string {
		o := r.pick(choose, delivers)
		if o == nil {
			return ""
		}
		o.Items[choose(len(o.Items))].TransactionID = "unknown"
		return "unpushed"
	}},
	{"a late push is stored first", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool { return answeredPush(o) && !o.Items[0].Duplicate })
		if o == nil {
			return ""
		}
		item := o.Items[0]
		item.TransactionID, item.MessageID = "late", "late"
		r.last(history.Operation{Kind: history.Push, Outcome: history.Done, Items: []history.Item{item}})
		for i := range r.state.Partitions {
			if p := &r.state.Partitions[i]; p.Name == item.Partition {
				at := slices.IndexFunc(p.Log, func(m check.Message) bool { return m.TransactionID == o.Items[0].TransactionID })
				p.Log = slices.Insert(p.Log, at, check.Message{MessageID: "late", TransactionID: "late"})
				for n := range p.Log {
					p.Log[n].Seq = int64(n + 1)
				}
			}
		}
		return "push-order"
	}},
	{"a cursor falls", func(r *run, choose choose) string {
		p := r.state.Partitions[choose(len(r.state.Partitions))]
		c := p.Cursors[choose(len(p.Cursors))]
		r.state.Samples = append(r.state.Samples, check.Sample{
			At: time.Hour, Queue: "q", Partition: p.Name, ID: p.ID, Group: c.Group, Committed: c.Committed + 1, LastSeq: p.LastSeq,
		})
		return "cursor"
	}},
	{"last_seq is wrong", func(r *run, choose choose) string {
		r.state.Partitions[choose(len(r.state.Partitions))].LastSeq++
		return "counts"
	}},
	{"a dead letter is forgotten", func(r *run, choose choose) string {
		o := r.pick(choose, func(o *history.Operation) bool {
			return slices.ContainsFunc(o.Items, func(item history.Item) bool { return item.DeadLettered })
		})
		if o == nil {
			return ""
		}
		at := slices.IndexFunc(o.Items, func(item history.Item) bool { return item.DeadLettered })
		r.cursorOf(o.Items[at].Partition, o.Group).Dead = nil
		return "dead"
	}},
	{"a cursor stays before the end", func(r *run, choose choose) string {
		p := r.state.Partitions[choose(len(r.state.Partitions))]
		c := &p.Cursors[choose(len(p.Cursors))]
		if p.LastSeq == 0 || slices.Contains(c.Dead, p.LastSeq) {
			return ""
		}
		c.Committed = p.LastSeq - 1
		return "leftover"
	}},
	{"a waiting consumer is not woken", func(r *run, choose choose) string {
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
		return "stuck"
	}},
}

// noticed requires that the rule reports a violation, for the whole run and for the cut around the violation.
func noticed(t require.TestingT, r *run, rule string) {
	found := r.judge()
	at := slices.IndexFunc(found, func(v check.Violation) bool { return v.Rule == rule })
	require.GreaterOrEqual(t, at, 0, "%s must complain: %v", rule, found)
	cut := check.Run(check.Cut(r.operations, found[at]), check.CutState(r.state, found[at]), r.options)
	require.True(t, slices.ContainsFunc(cut, func(v check.Violation) bool { return v.Rule == rule }),
		"%s must complain about the cut history: %v", rule, cut)
}
