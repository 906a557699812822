package main

import (
	"context"
	"sync"
	"time"
)

const (
	// drainPatience is how long the last messages may take to come before they
	// count as stuck or lost.
	drainPatience = 15 * time.Second
	// stuckAfter is when a message that came in the end counts as stuck all the
	// same: what woke its consumer then was something else.
	stuckAfter = 5 * time.Second
	// drainLook is the pause between two looks whether all have come.
	drainLook = 20 * time.Millisecond
)

// lane is a partition of a queue.
type lane struct{ queue, partition string }

// entry is the life of one message. A pop may be answered before the push.
type entry struct {
	sent, stored, came time.Time
	deliveries         int
}

// ledger holds what was pushed against what was popped. It is safe for
// concurrent use.
type ledger struct {
	mu      sync.Mutex
	entries map[lane][]entry
	// last is, by lane, the number of the last message that came.
	last map[lane]int
	// pushed and came count messages, each once.
	pushed, came           int
	duplicates, disordered int
	unknown                int
	// found is what search found.
	found int
	// measured is where the times begin to count; zero: from the first message.
	// before is how many messages had been pushed then.
	measured time.Time
	before   int
}

func newLedger() *ledger { return &ledger{entries: map[lane][]entry{}, last: map[lane]int{}} }

// next reserves the number of the next message of a lane; it is pushed with it.
func (l *ledger) next(to lane) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[to] = append(l.entries[to], entry{})
	return len(l.entries[to]) - 1
}

// stored notes that a push was answered.
func (l *ledger) stored(to lane, n int, sent, answered time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.entries[to][n]
	e.sent, e.stored = sent, answered
	l.pushed++
}

// popped notes that a message came. Order is only that of the notes, so it can
// be judged only where each is made before the next message is let go.
func (l *ledger) popped(from lane, n int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n >= len(l.entries[from]) {
		l.unknown++
		return
	}
	e := &l.entries[from][n]
	e.deliveries++
	if e.deliveries > 1 {
		l.duplicates++
		return
	}
	e.came = at
	l.came++
	if last, ok := l.last[from]; ok && n != last+1 || !ok && n != 0 {
		l.disordered++
	}
	l.last[from] = n
}

func (l *ledger) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.came >= l.pushed
}

// drained waits until everything pushed has come, as long as something does.
func (l *ledger) drained(ctx context.Context) error {
	came, since := -1, time.Now()
	for !l.complete() {
		l.mu.Lock()
		now := l.came
		l.mu.Unlock()
		if now != came {
			came, since = now, time.Now()
		}
		if time.Since(since) > drainPatience {
			return nil
		}
		if err := pause(ctx, drainLook); err != nil {
			return err
		}
	}
	return nil
}

// missing returns how many messages have not come, by queue.
func (l *ledger) missing() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := map[string]int{}
	for at, entries := range l.entries {
		for i := range entries {
			if !entries[i].stored.IsZero() && entries[i].deliveries == 0 {
				missing[at.queue]++
			}
		}
	}
	return missing
}

// search looks for what has not come. Whatever a pop that does not wait finds
// is there and was stuck; the rest is lost. Nobody else may pop meanwhile.
func (l *ledger) search(ctx context.Context, c *client, group string) error {
	const most = 100
	for queue := range l.missing() {
		for {
			d, err := c.pop(ctx, popCall{queue: queue, group: group, batch: most, autoAck: true})
			if err != nil {
				return err
			}
			if len(d.Messages) == 0 {
				break
			}
			l.found += len(d.Messages)
		}
	}
	return nil
}

// judge reports the promises; how precedes their names. ordered: the order of
// the notes means something.
func (l *ledger) judge(out *report, how string, ordered bool) {
	missing := 0
	for _, n := range l.missing() {
		missing += n
	}
	out.never(how+"lost", max(0, missing-l.found))
	out.never(how+"stuck", min(missing, l.found)+l.late())
	out.never(how+"delivered twice or never pushed", l.duplicates+l.unknown)
	if ordered {
		out.never(how+"out of order", l.disordered)
	}
}

// late returns how many messages came after more than stuckAfter.
func (l *ledger) late() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := 0
	for _, entries := range l.entries {
		for i := range entries {
			if e := &entries[i]; e.deliveries > 0 && e.came.Sub(e.stored) > stuckAfter && !e.stored.IsZero() {
				late++
			}
		}
	}
	return late
}

// forgetTimes leaves the messages so far out of the times and of measuredPushes.
func (l *ledger) forgetTimes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measured, l.before = time.Now(), l.pushed
}

func (l *ledger) measuredPushes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pushed - l.before
}

// times returns how long each message took, from the answer of its push and from
// the beginning of the push to the answer of its pop.
func (l *ledger) times() (fromAnswer, fromStart []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, entries := range l.entries {
		for i := range entries {
			if e := &entries[i]; e.deliveries > 0 && e.sent.After(l.measured) {
				fromAnswer = append(fromAnswer, e.came.Sub(e.stored))
				fromStart = append(fromStart, e.came.Sub(e.sent))
			}
		}
	}
	return fromAnswer, fromStart
}
