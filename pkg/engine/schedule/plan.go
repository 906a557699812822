package schedule

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
)

const (
	// maxMissed is how many missed instants of a schedule with MissedAll are stored.
	maxMissed = 1000
	// onTime is how late a message of a schedule with MissedSkip may be. It is longer than a takeover.
	onTime = 10 * time.Second
)

// row is a schedule that is due.
type row struct {
	id           int64
	name         string
	queue        string
	spec         when.Spec
	jitter       time.Duration
	missed       string
	overlapGroup string
	payload      string
	headers      *string
	// handledTo is the last instant that is handled.
	handledTo time.Time
	changedAt time.Time
	// busy is set if the overlap group has not finished the last message.
	busy bool
}

// outcome is what happens to a row.
type outcome struct {
	// instants are the instants whose messages are stored.
	instants []time.Time
	// handledTo is the last instant that is stored or skipped.
	handledTo time.Time
	// next is the following instant, and due is when it is handled. Both are zero if no instant follows.
	next, due time.Time
	// skipped is the number of skipped instants that are known. Instants between two missed ones are not counted.
	skipped int
	// problem is the error of the rule, or "".
	problem string
}

// plan decides what happens to a row at an instant of the clock of the database. It never goes back: all instants are after
// row.handledTo.
func (r *row) plan(now time.Time, parse func(when.Spec) (*when.Rule, error)) outcome {
	rule, err := parse(r.spec)
	if err != nil {
		return outcome{handledTo: r.handledTo, problem: err.Error()}
	}
	first, ok := rule.Next(r.handledTo)
	switch {
	case !ok:
		return outcome{handledTo: r.handledTo}
	case r.dueAt(first).After(now):
		return outcome{handledTo: r.handledTo, next: first, due: r.dueAt(first)}
	}
	last := newest(rule, first, now.Add(-r.jitter))
	result := outcome{instants: r.choose(rule, first, last, now), handledTo: last}
	if len(result.instants) == 0 {
		result.skipped = 1
	}
	if next, ok := rule.Next(last); ok {
		result.next, result.due = next, r.dueAt(next)
	}
	return result
}

func (r *row) dueAt(instant time.Time) time.Time {
	return instant.Add(when.Jitter(r.name, instant, r.jitter))
}

// choose returns the instants from first to last that get a message.
func (r *row) choose(rule *when.Rule, first, last, now time.Time) []time.Time {
	switch {
	case r.busy, r.missed == MissedSkip && now.Sub(r.dueAt(last)) > onTime:
		return nil
	case r.missed != MissedAll || r.overlapGroup != "":
		return []time.Time{last}
	}
	var all []time.Time
	for at, ok := first, true; ok && !at.After(last) && len(all) < maxMissed; at, ok = rule.Next(at) {
		all = append(all, at)
	}
	return all
}

// newest returns the last instant of a rule that is not after until, or first if there is no later one. It halves the time
// between both, so its cost does not depend on the number of instants.
func newest(rule *when.Rule, first, until time.Time) time.Time {
	low := first // an instant
	for high := until; ; {
		next, ok := rule.Next(low)
		if !ok || next.After(until) {
			return low
		}
		// An instant is after low and not after until. Look for one in the later half.
		low = next
		for high.Sub(low) > 0 {
			middle := low.Add(high.Sub(low) / 2)
			found, ok := rule.Next(middle)
			if ok && !found.After(until) {
				low = found
				break
			}
			high = middle
		}
	}
}
