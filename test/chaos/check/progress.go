package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// progress is the state of a check of settlements. next is the first ordinal that cannot be settled by any operation
// that began so far.
type progress struct {
	// done has, for each ordinal, whether a single message may be settled.
	done []bool
	// consumed has, for each ordinal, whether an answered autoAck pop consumed the message.
	consumed []bool
	next     int
	// events are the events still to apply.
	events []event
	// excuses is the number of lost autoAck deliveries that have not explained a gap yet.
	excuses int
}

// settleUpTo records that all messages up to an ordinal may be settled.
func (f *progress) settleUpTo(ordinal int) { f.next = max(f.next, ordinal+1) }

// advance moves next over messages that may be settled.
func (f *progress) advance() {
	for f.next < len(f.done) && f.done[f.next] {
		f.next++
	}
}

// apply applies the events that began before now.
func (f *progress) apply(now time.Duration) {
	for len(f.events) > 0 && f.events[0].at < now {
		switch e := f.events[0]; {
		case e.lostAutoAck:
			f.excuses++
		case e.upto:
			f.settleUpTo(e.ordinals[0])
		default:
			for _, ordinal := range e.ordinals {
				f.done[ordinal] = true
				f.consumed[ordinal] = f.consumed[ordinal] || e.consumed
			}
		}
		f.events = f.events[1:]
	}
	f.advance()
}

// reaches reports whether all messages before an ordinal may be settled. Each lost autoAck delivery may explain one
// sequence of messages. The sequence continues after messages that a delivery leaves out, because they were
// dead-lettered, expired or deleted.
func (f *progress) reaches(ordinal int) bool {
	for f.next < ordinal {
		if f.excuses == 0 {
			return false
		}
		f.excuses--
		for f.next < ordinal && !f.consumed[f.next] {
			f.next++
		}
		f.advance()
	}
	return true
}

// event is a possible settlement of messages.
type event struct {
	at time.Duration
	// If upto, all messages up to ordinals[0] are settled. Otherwise only the messages in ordinals are settled.
	upto        bool
	ordinals    []int
	lostAutoAck bool
	consumed    bool // an answered autoAck pop consumed the messages
}

// progressEvents returns the events that may have moved the cursor, each at its earliest possible time.
func (r *reader) progressEvents() []event {
	var events []event
	for _, a := range r.acks {
		switch {
		case r.gen != nil && a.redelivery && a.completes(): // an ack of a redriven message does not move the cursor
		case a.completes():
			events = append(events, event{at: a.op.Begin, upto: true, ordinals: []int{a.entry.ordinal}})
		case a.mayDeadLetter():
			events = append(events, event{at: a.op.Begin, ordinals: []int{a.entry.ordinal}})
		}
	}
	for _, d := range r.deliveries {
		if !d.op.AutoAck {
			continue
		}
		e := event{at: d.after, consumed: true}
		for _, m := range d.entries {
			e.ordinals = append(e.ordinals, m.ordinal)
		}
		events = append(events, e)
	}
	for _, op := range slices.Concat(r.lostAutoAcks(), r.repeatedAutoAcks()) {
		events = append(events, event{at: op.Begin, lostAutoAck: true})
	}
	for ordinal, at := range r.expiredFrom() {
		events = append(events, event{at: at, ordinals: []int{ordinal}})
	}
	for _, e := range r.lane.log {
		if at := r.lane.skippableFrom(e); at != forever {
			events = append(events, event{at: at, ordinals: []int{e.ordinal}})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return events
}

// unskipped checks that a delivery starts at or before the first message that cannot be settled, and that the final
// cursor has not passed that message. It examines the deliveries in the order of their ends, each with all events
// that began before its end.
func (r *reader) unskipped() []Violation {
	var found []Violation
	f := &progress{
		done: make([]bool, len(r.lane.log)+1), consumed: make([]bool, len(r.lane.log)+1), next: 1, events: r.progressEvents(),
	}
	begin, known := r.start()
	if f.settleUpTo(begin); r.gen != nil {
		for ordinal := range r.gen.skip {
			f.done[ordinal] = true
		}
	}
	for i, d := range slices.SortedStableFunc(slices.Values(r.deliveries), func(a, b *delivery) int { return cmp.Compare(a.op.End, b.op.End) }) {
		first := d.first()
		if first == nil || d.redelivery {
			continue
		}
		if i == 0 && !known {
			f.settleUpTo(first.ordinal - 1) // the group began at this message
		}
		if f.apply(d.op.End); !f.reaches(first.ordinal) {
			found = append(found, r.at("skipped", d.op, r.skippedMessage(f.next, first)))
			found = append(found, r.passedUnapplied(d.op, f, first.ordinal-1)...)
			f.settleUpTo(first.ordinal - 1)
		}
	}
	if r.cursor == nil || len(r.deliveries) == 0 {
		return found
	}
	last := 0 // the last ordinal that the cursor has passed
	for last < len(r.lane.log) && r.lane.log[last].seq <= r.cursor.Committed {
		last++
	}
	if f.apply(forever); !f.reaches(last + 1) {
		found = append(found, r.at("skipped", nil, fmt.Sprintf(
			"the cursor is at %d in the end%s, but %q at %d was neither completed, consumed nor dead-lettered",
			r.cursor.Committed, r.ofGeneration(), r.lane.log[f.next-1].transaction, r.lane.log[f.next-1].seq)))
		found = append(found, r.passedUnapplied(nil, f, last)...)
	}
	return found
}

// ofGeneration returns the name of the generation for a message. It returns "" for the last generation.
func (r *reader) ofGeneration() string {
	if r.gen == nil || r.gen.last {
		return ""
	}
	return " of " + r.gen.String()
}

func (r *reader) skippedMessage(ordinal int, first *entry) string {
	e := r.lane.log[ordinal-1]
	return fmt.Sprintf("the delivery starts with %q at %d, but %q at %d was neither completed, consumed nor dead-lettered by then",
		first.transaction, first.seq, e.transaction, e.seq)
}
