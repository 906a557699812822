package check

import (
	"fmt"
	"time"
)

// early checks that no message is delivered before its delay is over. The delay begins at the earliest at the begin
// of the push. The rule assumes that the clocks of the history and the database run at the same speed.
func early(x *index) []Violation {
	var found []Violation
	x.readers(func(r *reader) {
		for _, d := range r.deliveries {
			for _, e := range d.entries {
				if e.delay == 0 || e.after == forever || d.op.End >= e.after+e.delay {
					continue
				}
				found = append(found, r.at("early", d.op, fmt.Sprintf(
					"%q at %d was delivered %s after its push began, but its delay is %s", e.transaction, e.seq, d.op.End-e.after, e.delay)))
				break
			}
		}
	})
	return found
}

// ready returns, for each ordinal, the latest time at which the message and all earlier messages are stored and
// visible. A delayed message blocks the messages after it.
func (l *lane) ready() []time.Duration {
	ready := make([]time.Duration, len(l.log)+1)
	stored := forever // later messages were stored later, so the loop goes backwards
	for ordinal := len(l.log); ordinal > 0; ordinal-- {
		stored = min(stored, l.log[ordinal-1].by)
		ready[ordinal] = stored
	}
	visible := time.Duration(0)
	for i, e := range l.log {
		ordinal := i + 1
		if e.longest > 0 && ready[ordinal] != forever {
			visible = max(visible, ready[ordinal]+e.longest)
		}
		ready[ordinal] = max(ready[ordinal], visible)
	}
	return ready
}
