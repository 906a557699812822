package check

import "fmt"

// removed reports whether the partition was removed.
func (l *lane) removed() bool { return l.part != nil && l.part.Removed != nil }

// removals checks that a partition is removed only if it is empty and had no push for IdleAfter. Other rules check
// the deletion of its messages.
func removals(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		if !l.removed() {
			continue
		}
		if n := l.part.Removed.Messages; n > 0 {
			found = append(found, l.at("removed", nil, fmt.Sprintf("it was removed with %d messages", n)))
		}
		if idle := l.part.Removed.Idle; idle < x.options.IdleAfter {
			found = append(found, l.at("removed", nil, fmt.Sprintf(
				"it was removed %s after the last push, but a removal is allowed only after %s without a push", idle, x.options.IdleAfter)))
		}
	}
	return found
}
