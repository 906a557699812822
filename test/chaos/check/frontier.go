package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// progress is the first ordinal of a log that cannot be settled yet, whatever happened to the operations that began by
// now.
type frontier struct {
	// done holds by ordinal whether a single message may be settled.
	done []bool
	next int
	// events are the events still to apply.
	events []event
	// excuses counts lost autoAck deliveries that have not explained a gap yet.
	excuses int
	// sought: the cursor was sought, so nothing is known any more.
	sought bool
}

// settleUpTo notes that everything up to an ordinal may be settled.
func (f *frontier) upto(place int) { f.next = max(f.next, place+1) }

// advance moves next over messages that may be settled.
func (f *frontier) advance() {
	for f.next < len(f.done) && f.done[f.next] {
		f.next++
	}
}

// apply applies the events that began before an instant.
func (f *frontier) until(now time.Duration) {
	for len(f.events) > 0 && f.events[0].at < now {
		switch e := f.events[0]; {
		case e.sought:
			f.sought = true
			return
		case e.wild:
			f.excuses++
		case e.upto:
			f.upto(e.places[0])
		default:
			for _, place := range e.places {
				f.done[place] = true
			}
		}
		f.events = f.events[1:]
	}
	f.advance()
}

// reaches reports whether everything before an ordinal may be settled. Each lost autoAck delivery may explain one run.
func (f *frontier) reaches(place int) bool {
	for f.next < place {
		if f.excuses == 0 {
			return false
		}
		f.excuses--
		for f.next < place && !f.done[f.next] {
			f.next++
		}
		f.advance()
	}
	return true
}

// event is something that changes the progress.
type event struct {
	at time.Duration
	// If upto, everything up to the one ordinal is settled. Otherwise the ordinals alone are.
	upto   bool
	places []int
	wild   bool
	sought bool
}

// progressEvents returns the events that may have moved the cursor, each at its earliest.
func (r *reader) happenings() []event {
	var events []event
	for _, a := range r.acks {
		switch {
		case r.gen != nil && a.redelivery && a.completes(): // it moves no cursor
		case a.completes():
			events = append(events, event{at: a.op.Begin, upto: true, places: []int{a.entry.place}})
		case a.buries():
			events = append(events, event{at: a.op.Begin, places: []int{a.entry.place}})
		}
	}
	for _, d := range r.deliveries {
		if !d.op.AutoAck {
			continue
		}
		e := event{at: d.after}
		for _, m := range d.entries {
			e.places = append(e.places, m.place)
		}
		events = append(events, e)
	}
	for _, op := range slices.Concat(r.wild(), r.repeated()) {
		events = append(events, event{at: op.Begin, wild: true})
	}
	for place, at := range r.expired() {
		events = append(events, event{at: at, places: []int{place}})
	}
	for _, e := range r.lane.log {
		if at := r.lane.passable(e); at != forever {
			events = append(events, event{at: at, places: []int{e.place}})
		}
	}
	for _, op := range r.group.seeks {
		if r.lane.concerns(op) {
			events = append(events, event{at: op.Begin, sought: true})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return events
}

// unskipped: a delivery starts at or before the first message that cannot be settled, and the final cursor has not
// passed that message. Deliveries are taken in the order of their ends, each with all events that began by then.
func (r *reader) unskipped() []Violation {
	var found []Violation
	f := &frontier{done: make([]bool, len(r.lane.log)+1), next: 1, events: r.happenings()}
	begin, known := r.start()
	if f.upto(begin); r.gen != nil {
		for place := range r.gen.skip {
			f.done[place] = true
		}
	}
	for i, d := range slices.SortedStableFunc(slices.Values(r.deliveries), func(a, b *delivery) int { return cmp.Compare(a.op.End, b.op.End) }) {
		first := d.first()
		if first == nil || d.redelivery {
			continue
		}
		if i == 0 && !known {
			f.upto(first.place - 1) // the group began there
		}
		if f.until(d.op.End); f.sought {
			return found
		}
		if !f.reaches(first.place) {
			found = append(found, r.at("skipped", d.op, r.skip(f.next, first)))
			found = append(found, r.passed(d.op, f, first.place-1)...)
			f.upto(first.place - 1)
		}
	}
	if r.cursor == nil || len(r.deliveries) == 0 {
		return found
	}
	last := 0 // the last ordinal that the cursor has passed
	for last < len(r.lane.log) && r.lane.log[last].seq <= r.cursor.Committed {
		last++
	}
	if f.until(forever); !f.sought && !f.reaches(last+1) {
		found = append(found, r.at("skipped", nil, fmt.Sprintf(
			"the cursor is at %d in the end%s, but %q at %d was neither completed, consumed nor dead-lettered",
			r.cursor.Committed, r.until(), r.lane.log[f.next-1].transaction, r.lane.log[f.next-1].seq)))
		found = append(found, r.passed(nil, f, last)...)
	}
	return found
}

// ofGeneration names the generation in a message, unless it is the last.
func (r *reader) until() string {
	if r.gen == nil || r.gen.last {
		return ""
	}
	return " of " + r.gen.String()
}

func (r *reader) skip(place int, first *entry) string {
	e := r.lane.log[place-1]
	return fmt.Sprintf("the delivery starts with %q at %d, but %q at %d was neither completed, consumed nor dead-lettered by then",
		first.transaction, first.seq, e.transaction, e.seq)
}
