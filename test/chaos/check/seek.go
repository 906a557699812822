package check

import (
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// fell returns a violation for each cursor that moved back without a seek.
func (x *index) fell() []Violation {
	var found []Violation
	for _, m := range x.state.Moves {
		if m.How == Fell {
			v := x.lane(m.Queue, m.Partition).at("cursor", nil, fmt.Sprintf("the cursor moved back from %d to %d without a seek", m.From, m.To))
			v.Group = m.Group
			found = append(found, v)
		}
	}
	return found
}

// seeks checks that a seek moves a cursor only to a requested position, and that a successful seek moved all existing
// cursors.
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
					"a seek moved the cursor back from %d to %d, but the cursor still skips %d dead letters", m.From, m.To, len(m.Skip)))
				v.Group = m.Group
				found = append(found, v)
			}
			if !x.requested(m) {
				v := x.lane(m.Queue, m.Partition).at("seek", nil, fmt.Sprintf("the cursor was moved by a seek from %d to %d, but no client requested this", m.From, m.To))
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
					v := l.at("seek", op, fmt.Sprintf("the seek to %q was answered with success, but the cursor was not moved there during the seek", op.Target))
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

// requested reports whether a recorded seek may have made a move.
func (x *index) requested(m Move) bool {
	l := x.lane(m.Queue, m.Partition)
	for _, op := range x.group(m.Queue, m.Group).resets {
		if op.Kind == history.Seek && l.concerns(op) && l.fits(op, m) {
			return true
		}
	}
	return false
}

// fits reports whether a seek may have moved the cursor to the target of m. The target must include messages stored
// before the seek began, and exclude messages pushed after it ended.
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

// fenced checks that no ack is accepted for a delivery from before a completed seek, or from before the deletion of
// the group.
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
						"the ack of %q at %d was accepted under lease %s, but the %s of operation %d had ended the lease %s before",
						a.entry.transaction, a.entry.seq, a.op.LeaseID, op.Kind, op.ID, a.op.Begin-op.End)))
				}
			}
		}
	})
	return found
}

// rejoined checks that the next pop of a deleted group creates a new group, which begins at the first message.
func rejoined(x *index) []Violation {
	var found []Violation
	of := map[string]int64{} // group id of each lease
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
