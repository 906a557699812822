package check_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

const (
	// modelLease is the lease duration of the model, modelLimit its retry limit.
	modelLease = 300 * time.Millisecond
	modelLimit = 1
	// modelSlack is the longest time between the effect of an operation and its begin or its end.
	modelSlack = 25 * time.Millisecond
)

// choose returns a number from 0 to n-1.
type choose func(n int) int

// model is a queue in memory that keeps every promise, with clients that do everything clients may do. It records a
// history.
type model struct {
	choose choose
	now    time.Duration
	lanes  []*modelLane
	groups []string
	held   []*holding
	run    run
	made   int
}

type modelLane struct {
	name     string
	log      []string // transaction ids
	ordinals map[string]int
	cursors  map[string]*modelCursor
}

type modelCursor struct {
	committed, consumed int
	dead, skip          map[int]bool
	lease               string
	until               time.Duration
	end, failures       int
}

// holding is a delivery that its client received.
type holding struct {
	group, lease string
	items        []history.Item
	since        time.Duration
}

func newModel(choose choose, lanes, groups int) *model {
	m := &model{choose: choose, now: time.Second}
	for g := range groups {
		m.groups = append(m.groups, fmt.Sprintf("g%d", g))
	}
	for l := range lanes {
		lane := &modelLane{name: fmt.Sprintf("p%d", l), ordinals: map[string]int{}, cursors: map[string]*modelCursor{}}
		for _, g := range m.groups {
			lane.cursors[g] = &modelCursor{dead: map[int]bool{}, skip: map[int]bool{}}
		}
		m.lanes = append(m.lanes, lane)
	}
	return m
}

// step does one random operation of some client.
func (m *model) step() {
	m.now += time.Duration(1+m.choose(40)) * time.Millisecond
	switch m.choose(10) {
	case 0, 1, 2:
		m.push()
	case 3, 4, 5:
		m.pop(m.groups[m.choose(len(m.groups))], m.outcome(), 1+m.choose(4), m.choose(5) == 0)
	case 6, 7, 8:
		m.ack()
	case 9:
		if m.choose(2) == 0 {
			m.transact()
			return
		}
		m.sample()
	}
}

// outcome is the outcome that a client observes, mostly the true one.
func (m *model) outcome() history.Outcome {
	switch m.choose(12) {
	case 0:
		return history.Refused
	case 1:
		return history.Unknown
	}
	return history.Done
}

// note records an operation that took effect now, if at all.
func (m *model) note(o history.Operation, notBefore time.Duration) history.Operation {
	o.ID, o.Queue, o.Client = int64(len(m.run.operations)+1), "q", "client"
	o.Begin = max(notBefore, m.now-time.Duration(m.choose(int(modelSlack))))
	o.End = m.now + time.Duration(m.choose(int(modelSlack)))
	if o.Outcome == history.Unknown && m.choose(2) == 0 {
		o.End = o.Begin // the client gave up before it took effect
	}
	m.run.operations = append(m.run.operations, o)
	return o
}

func (m *model) push() {
	o := history.Operation{Kind: history.Push, Outcome: m.outcome()}
	happens := o.Outcome == history.Done || o.Outcome == history.Unknown && m.choose(2) == 0
	for range 1 + m.choose(3) {
		lane := m.lanes[m.choose(len(m.lanes))]
		m.made++
		id := fmt.Sprintf("t%d", m.made)
		switch m.choose(8) {
		case 0:
			id = fmt.Sprintf("t%d", 1+m.choose(m.made)) // perhaps a repetition
		case 1:
			id = ""
		}
		item := history.Item{Partition: lane.name, TransactionID: id}
		if happens {
			if id == "" {
				id = fmt.Sprintf("made%d", m.made)
			}
			_, item.Duplicate = lane.ordinals[id]
			if !item.Duplicate {
				lane.log = append(lane.log, id)
				lane.ordinals[id] = len(lane.log)
			}
		}
		if o.Outcome == history.Done {
			item.TransactionID, item.MessageID = id, lane.messageID(id)
		} else {
			item.Duplicate = false
		}
		o.Items = append(o.Items, item)
	}
	m.note(o, 0)
}

func (l *modelLane) messageID(id string) string { return l.name + "/" + id }

// ready reports whether a group can get a message from a lane.
func (c *modelCursor) ready(l *modelLane, now time.Duration) bool {
	return (c.lease == "" || c.until <= now) && len(c.next(l, 1)) > 0
}

// next returns the ordinals of the next messages.
func (c *modelCursor) next(l *modelLane, batch int) []int {
	var ordinals []int
	for n := c.committed + 1; n <= len(l.log) && len(ordinals) < batch; n++ {
		if !c.skip[n] {
			ordinals = append(ordinals, n)
		}
	}
	return ordinals
}

// pop takes messages from one or two lanes, and reports whether there were any.
func (m *model) pop(group string, outcome history.Outcome, batch int, auto bool) bool {
	o := history.Operation{Kind: history.Pop, Outcome: outcome, Group: group, AutoAck: auto}
	o.Wait = time.Duration(m.choose(2)) * time.Minute
	if outcome == history.Refused || outcome == history.Unknown && m.choose(2) == 0 {
		m.note(o, 0)
		return false
	}
	lease := ""
	if !auto {
		lease = fmt.Sprintf("L%d", len(m.run.operations)+1)
	}
	lanes := 1 + m.choose(2)
	var items []history.Item
	start := m.choose(len(m.lanes))
	for i := range m.lanes {
		l := m.lanes[(start+i)%len(m.lanes)]
		c := l.cursors[group]
		if lanes == 0 || !c.ready(l, m.now) {
			continue
		}
		lanes--
		ordinals := c.next(l, batch)
		for _, n := range ordinals {
			items = append(items, history.Item{Partition: l.name, TransactionID: l.log[n-1], MessageID: l.messageID(l.log[n-1])})
		}
		c.end = ordinals[len(ordinals)-1]
		c.lease, c.until = lease, m.now+modelLease
		if auto {
			c.committed, c.failures = c.end, 0
			c.consumed += len(ordinals)
		}
	}
	found := len(items) > 0
	if outcome == history.Unknown {
		m.note(o, 0)
		return found
	}
	if found {
		o.Items, o.LeaseID = items, lease
	}
	o = m.note(o, 0)
	if found && !auto {
		m.held = append(m.held, &holding{group, lease, items, o.End})
	}
	return found
}

// ack acknowledges a part of a delivery, which may be stale, or extends its lease.
func (m *model) ack() {
	known := slices.DeleteFunc(slices.Clone(m.held), func(h *holding) bool { return h.since > m.now })
	if len(known) == 0 {
		return
	}
	h := known[m.choose(len(known))]
	if m.choose(6) == 0 {
		m.extend(h)
		return
	}
	all := []string{"completed", "completed", "completed", "failed", "retry"}
	status := all[m.choose(len(all))]
	upto := 1 + m.choose(len(h.items))
	var items []history.Item
	for i, item := range h.items[:upto] {
		item.Status, item.MessageID = "completed", ""
		if i == upto-1 {
			item.Status = status
		}
		items = append(items, item)
	}
	m.acknowledge(h, items, m.outcome())
}

func (m *model) extend(h *holding) {
	outcome := history.Refused
	for _, l := range m.lanes {
		if c := l.cursors[h.group]; c.lease == h.lease && c.until > m.now {
			c.until, outcome = m.now+modelLease, history.Done
		}
	}
	if outcome == history.Done && m.choose(8) == 0 {
		outcome = history.Unknown
	}
	m.note(history.Operation{Kind: history.Extend, Outcome: outcome, Group: h.group, LeaseID: h.lease}, h.since)
}

func (m *model) acknowledge(h *holding, items []history.Item, outcome history.Outcome) {
	if outcome == history.Done || outcome == history.Unknown && m.choose(2) == 0 {
		for _, l := range m.lanes {
			l.acknowledge(l.cursors[h.group], h.lease, items, m.now)
		}
	}
	if outcome != history.Done {
		for i := range items {
			items[i].Accepted, items[i].DeadLettered = false, false
		}
	}
	m.note(history.Operation{Kind: history.Ack, Outcome: outcome, Group: h.group, LeaseID: h.lease, Items: items}, h.since)
}

// acknowledge applies the items that belong to the lane, which are in order.
func (l *modelLane) acknowledge(c *modelCursor, lease string, items []history.Item, now time.Duration) {
	if c.lease != lease || c.until <= now {
		return
	}
	before, stopped := c.committed, false
	for i := range items {
		if items[i].Partition != l.name {
			continue
		}
		n := l.ordinals[items[i].TransactionID]
		switch {
		case items[i].Status == "failed" && n > c.committed && !stopped && c.failures >= modelLimit && !c.skip[n]:
			c.dead[n], c.skip[n] = true, true
			items[i].Accepted, items[i].DeadLettered = true, true
		case n <= c.committed:
			items[i].Accepted = true
		case items[i].Status == "completed" && !stopped:
			items[i].Accepted = true
			c.committed, c.failures = n, 0
		case items[i].Status != "completed":
			items[i].Accepted, stopped = true, true
			if items[i].Status == "failed" {
				c.failures++
			}
		}
	}
	for c.skip[c.committed+1] {
		c.committed++
	}
	c.consumed += c.committed - before
	if stopped || c.committed >= c.end {
		c.lease = ""
	}
}

func (m *model) sample() {
	for _, l := range m.lanes {
		for _, g := range m.groups {
			m.run.state.Samples = append(m.run.state.Samples, check.Sample{
				At: m.now, Queue: "q", Partition: l.name, Group: g, Committed: int64(l.cursors[g].committed), LastSeq: int64(len(l.log)),
			})
		}
	}
}

// drained consumes the remaining messages and returns the whole run.
func (m *model) drained() *run {
	for _, g := range m.groups {
		m.now += 3 * modelLease
		for m.pop(g, history.Done, 10, false) {
			m.now += 2 * modelSlack
			h := m.held[len(m.held)-1]
			items := slices.Clone(h.items)
			for i := range items {
				items[i].Status, items[i].MessageID = "completed", ""
			}
			m.acknowledge(h, items, history.Done)
			m.now += 2 * modelSlack
		}
	}
	m.run.options = check.Options{WakeBound: 3 * modelSlack, LeaseDuration: modelLease}
	for _, l := range m.lanes {
		p := check.Partition{Queue: "q", Name: l.name, LastSeq: int64(len(l.log))}
		for i, id := range l.log {
			p.Log = append(p.Log, check.Message{Seq: int64(i + 1), MessageID: l.messageID(id), TransactionID: id})
		}
		for _, g := range m.groups {
			c := l.cursors[g]
			cursor := check.Cursor{Group: g, FromStart: true, Committed: int64(c.committed), Consumed: int64(c.consumed)}
			for _, n := range slices.Sorted(maps.Keys(c.dead)) {
				cursor.Dead = append(cursor.Dead, int64(n))
			}
			p.Cursors = append(p.Cursors, cursor)
		}
		m.run.state.Partitions = append(m.run.state.Partitions, p)
	}
	return &m.run
}
