package check

import (
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// fell: only a seek moves a cursor back.
func (x *index) fell() []Violation {
	var found []Violation
	for _, m := range x.state.Moves {
		if m.How == Fell {
			v := x.lane(m.Queue, m.Partition).at("cursor", nil, fmt.Sprintf("the cursor moved back from %d to %d, and no seek did that", m.From, m.To))
			v.Group = m.Group
			found = append(found, v)
		}
	}
	return found
}

// seeks: a cursor is sought only to where a client asked. A seek answered with success moved the existing cursors.
func seeks(x *index) []Violation {
	var found []Violation
	joined, sought := map[readerName]time.Duration{}, map[readerName][]Move{}
	for _, m := range x.state.Moves {
		name := readerName{m.Queue, m.Partition, m.Group}
		if at, ok := joined[name]; m.How == Joined && (!ok || m.At < at) {
			joined[name] = m.At
		}
		if m.How == Sought {
			sought[name] = append(sought[name], m)
			if m.To <= m.From && len(m.Skip) > 0 {
				v := x.lane(m.Queue, m.Partition).at("seek", nil, fmt.Sprintf(
					"the cursor was sought back from %d to %d, but %d dead letters are still passed over", m.From, m.To, len(m.Skip)))
				v.Group = m.Group
				found = append(found, v)
			}
			if !x.requested(m) {
				v := x.lane(m.Queue, m.Partition).at("seek", nil, fmt.Sprintf("the cursor was sought from %d to %d, which no seek requested", m.From, m.To))
				v.Group = m.Group
				found = append(found, v)
			}
		}
	}
	for _, g := range x.groups {
		for _, op := range g.resets {
			if op.Kind != history.Seek || op.Outcome != history.Done {
				continue
			}
			for _, l := range x.lanes {
				name := readerName{g.queue, l.partition, g.group}
				at, ok := joined[name]
				if l.queue != g.queue || !l.concerns(op) || l.removed() || !ok || at+clockSlack > op.Begin {
					continue
				}
				if !l.moved(op, sought[name]) {
					v := l.at("seek", op, fmt.Sprintf("the seek to %q was answered with success, but the cursor was not moved there meanwhile", op.Target))
					v.Group = g.group
					found = append(found, v)
				}
			}
		}
	}
	return found
}

func (l *lane) moved(op *history.Operation, sought []Move) bool {
	for _, m := range sought {
		if op.Begin-clockSlack <= m.At && m.At <= op.End+clockSlack && l.fits(op, m) {
			return true
		}
	}
	return false
}

// requested reports whether some seek may have moved a cursor so.
func (x *index) requested(m Move) bool {
	l := x.lane(m.Queue, m.Partition)
	for _, op := range x.group(m.Queue, m.Group).resets {
		if op.Kind == history.Seek && l.concerns(op) && l.fits(op, m) {
			return true
		}
	}
	return false
}

// fits reports whether a seek may have led to an ordinal. Messages stored before it began count, messages pushed after
// it ended do not.
func (l *lane) fits(op *history.Operation, m Move) bool {
	ordinal := l.upto(m.To)
	switch op.Target {
	case history.ToBeginning:
		return m.To == 0
	case history.ToEnd:
		for _, e := range l.log[:ordinal] {
			if op.Outcome == history.Done && e.after != forever && e.after > op.End {
				return false
			}
		}
		for _, e := range l.log[ordinal:] {
			if e.by < op.Begin {
				return false
			}
		}
		return true
	}
	at, err := time.Parse(time.RFC3339Nano, op.Target)
	if err != nil {
		return false
	}
	for _, e := range l.log[:ordinal] {
		if e.created.After(at) {
			return false
		}
	}
	for _, e := range l.log[ordinal:] {
		if !e.created.After(at) && e.by < op.Begin {
			return false
		}
	}
	return true
}

// fenced: no ack is accepted for a delivery from before a completed seek, or from before the deletion of its group.
func fenced(x *index) []Violation {
	var found []Violation
	x.readers(func(r *reader) {
		for _, a := range r.acks {
			owners := x.owners[a.op.LeaseID]
			if a.uncertain() || len(owners) == 0 || !x.firstAttempt(a.op) {
				continue
			}
			for _, op := range r.group.resets {
				if op.Outcome == history.Done && r.lane.concerns(op) && op.Begin > owners[0].End && op.End < a.op.Begin {
					found = append(found, r.at("fenced", a.op, fmt.Sprintf(
						"%q at %d was accepted under lease %s, which the %s of operation %d had ended %s before",
						a.entry.transaction, a.entry.seq, a.op.LeaseID, op.Kind, op.ID, a.op.Begin-op.End)))
				}
			}
		}
	})
	return found
}

// rejoined: a deleted group is a new group at its next pop, and begins at the first message.
func rejoined(x *index) []Violation {
	var found []Violation
	of := map[string]int64{} // group ids by lease
	for _, t := range x.state.LeasePeriods {
		of[t.LeaseID] = t.GroupID
	}
	for _, g := range x.groups {
		for _, op := range g.resets {
			if op.Kind != history.DeleteGroup || op.Outcome != history.Done {
				continue
			}
			before := map[int64]bool{}
			for _, pop := range x.order {
				if pop.Kind == history.Pop && pop.Queue == g.queue && pop.Group == g.group && pop.End < op.Begin {
					before[of[pop.LeaseID]] = true
				}
			}
			for _, r := range g.readers {
				for _, d := range r.deliveries {
					if n := of[d.op.LeaseID]; n != 0 && before[n] && d.op.Begin > op.End {
						found = append(found, r.at("rejoined", d.op, fmt.Sprintf(
							"the delivery is to the group that operation %d had deleted %s before", op.ID, d.op.Begin-op.End)))
					}
				}
			}
		}
	}
	for _, m := range x.state.Moves {
		g := x.groupByName[groupName{m.Queue, m.Group}]
		if m.How != Joined || m.To == 0 || g == nil {
			continue
		}
		for _, op := range g.resets {
			if op.Kind == history.DeleteGroup {
				v := x.lane(m.Queue, m.Partition).at("rejoined", op, fmt.Sprintf("the group was created again and begins at %d, not at the beginning", m.To))
				v.Group = m.Group
				found = append(found, v)
				break
			}
		}
	}
	return found
}
