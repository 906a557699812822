package check

import "fmt"

// removed: the partition is not there any more.
func (l *lane) removed() bool { return l.part != nil && l.part.Removed != nil }

// removals: a partition is removed when it is empty and nothing was pushed to it for
// long enough. What happened to its messages the other rules say.
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
				"it was removed %s after the last push, but that takes %s", idle, x.options.IdleAfter)))
		}
	}
	return found
}
