package check

import (
	"fmt"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

type readerName struct{ queue, partition, group string }

// cursors checks that neither a cursor nor the end of a log decreases from one sample to the next and to the final
// state. Only a seek moves a cursor back.
func cursors(x *index) []Violation {
	samples := x.state.Samples
	for _, p := range x.state.Partitions {
		for _, c := range p.Cursors {
			if !c.Missing {
				samples = append(samples[:len(samples):len(samples)], Sample{
					At: forever, Queue: p.Queue, Partition: clientName(p.Name), ID: p.ID, Group: c.Group, Committed: c.Committed, LastSeq: p.LastSeq,
				})
			}
		}
	}
	found := x.fell()
	type cursorID struct {
		readerName
		id int64
	}
	last := map[cursorID]Sample{}
	for _, s := range samples {
		if x.groupByName[groupName{s.Queue, ""}] != nil && len(x.groupByName[groupName{s.Queue, ""}].resets) > 0 {
			continue // the sample may belong to an earlier queue with this name
		}
		name := cursorID{readerName{s.Queue, s.Partition, s.Group}, s.ID}
		before, ok := last[name]
		last[name] = s
		if !ok {
			continue
		}
		r := x.reader(s.Queue, s.Partition, s.Group)
		at := "in the end"
		if s.At != forever {
			at = fmt.Sprintf("at %s", s.At)
		}
		if s.LastSeq < before.LastSeq {
			found = append(found, r.lane.at("cursor", nil, fmt.Sprintf(
				"the log ended with %d at %s, and with %d %s", before.LastSeq, before.At, s.LastSeq, at)))
		}
		// The rules for moves check a cursor with recorded generations. A crash of the database may lose the move of
		// a sweep.
		known := r.lane.generations[s.Group] != nil || r.lane.swept()
		if s.Committed < before.Committed && !known {
			found = append(found, r.at("cursor", nil, fmt.Sprintf(
				"the cursor moved back from %d at %s to %d %s", before.Committed, before.At, s.Committed, at)))
		}
	}
	return found
}

// counts checks these facts: a log has no holes and ends at last_seq, a cursor is within its log and beyond each
// completed message, and the cursor counts the messages that it passed.
func counts(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		if l.part == nil {
			for _, r := range l.readers {
				for _, d := range r.deliveries[:min(1, len(r.deliveries))] {
					found = append(found, r.at("counts", d.op, "messages were delivered from a partition that does not exist in the tables"))
				}
			}
			continue
		}
		for i, m := range l.rows {
			if m.Seq != int64(i)+1 {
				found = append(found, l.at("counts", nil, fmt.Sprintf("the log has the position %d instead of %d", m.Seq, i+1)))
				break
			}
		}
		if n := int64(len(l.rows)); n != l.part.LastSeq {
			found = append(found, l.at("counts", nil, fmt.Sprintf("last_seq is %d, but the log has %d messages", l.part.LastSeq, n)))
		}
		for _, r := range l.readers {
			found = append(found, r.counts(x)...)
		}
	}
	return found
}

func (r *reader) counts(x *index) []Violation {
	c := r.cursor
	if c == nil && r.gen != nil {
		return nil // the group of the reader was deleted
	}
	if c == nil {
		for _, d := range r.deliveries[:min(1, len(r.deliveries))] {
			return []Violation{r.at("counts", d.op, "messages were delivered to a group that has no cursor in the tables")}
		}
		return nil
	}
	var found []Violation
	complain := func(op *history.Operation, format string, args ...any) {
		found = append(found, r.at("counts", op, fmt.Sprintf(format, args...)))
	}
	if c.Committed < 0 || c.Committed > r.lane.part.LastSeq {
		complain(nil, "the cursor is at %d, outside the log, which ends at %d", c.Committed, r.lane.part.LastSeq)
	}
	ended := r.ofGeneration()
	for _, o := range r.settlements(x) {
		if seq := r.lane.log[o.ordinal-1].seq; o.upto && !o.op.AutoAck && seq > c.Committed {
			complain(o.op, "the message at %d %s, but the cursor is at %d in the end%s", seq, o.how, c.Committed, ended)
			break
		}
	}
	if !c.FromStart || r.gen != nil {
		return found
	}
	// Dead letters that the cursor passed may be counted in consumed or not. The same applies to dead letters that
	// were redriven.
	passed := int64(0)
	for _, seq := range c.Dead {
		if seq <= c.Committed {
			passed++
		}
	}
	if len(r.group.redrives) > 0 {
		passed = 0
		for _, e := range r.lane.log {
			if len(r.deadLetteringAcks(e)) > 0 && e.seq <= c.Committed {
				passed++
			}
		}
	}
	for _, e := range r.lane.log {
		if e.seq <= c.Committed && r.lane.skippableFrom(e) != forever {
			passed++
		}
	}
	if c.Consumed > c.Committed || c.Consumed < c.Committed-passed {
		complain(nil, "consumed is %d, but the cursor passed %d messages, %d of them dead-lettered", c.Consumed, c.Committed, passed)
	}
	return found
}
