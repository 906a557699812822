package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// Counts has counters of requests that are not in the history.
type Counts struct {
	// MalformedRefused counts answers with 4xx. MalformedUnanswered and MalformedUnavailable (503) count requests
	// during a fault.
	MalformedRefused, MalformedUnanswered, MalformedUnavailable int64
	// IntrusionsRefused counts refused requests of intruders. Requests without a refusal because of a fault count as
	// MalformedUnanswered or MalformedUnavailable.
	IntrusionsRefused int64
}

// Counts returns the current counters.
func (c *Clients) Counts() Counts {
	return Counts{c.malformedRefused.Load(), c.malformedUnanswered.Load(), c.malformedUnavailable.Load(), c.intrusionsRefused.Load()}
}

// LastDelivery returns the time of the latest delivery, on the clock of the recorder.
func (c *Clients) LastDelivery() time.Duration { return time.Duration(c.last.Load()) }

func (c *Clients) noteDelivery() {
	c.last.Store(int64(c.cfg.Recorder.Now()))
}

// Complaints returns the answers that are wrong even during faults.
func (c *Clients) Complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	complaints := slices.Clone(c.complaints)
	if c.suppressed > 0 {
		complaints = append(complaints, fmt.Sprintf("and %d more", c.suppressed))
	}
	return complaints
}

// complain keeps the first mostComplaints complaints and counts the others.
func (c *Clients) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.complaints) == mostComplaints {
		c.suppressed++
		return
	}
	c.complaints = append(c.complaints, fmt.Sprintf(format, args...))
}

// expect records the marks of a push without transaction ids.
func (c *Clients) expect(operation int64, items []pushItem) {
	if items[0].TransactionID != "" {
		return
	}
	marks := make([]string, len(items))
	for i, item := range items {
		marks[i] = item.Payload.Mark
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.anonymous[operation] = marks
}

// learning is the transaction id of a delivered mark, and the time of the first delivery with this id.
type learning struct {
	id string
	at time.Duration
}

// change is a mark whose transaction id differs from an earlier delivery.
type change struct {
	mark   string
	before learning
	now    string
}

// learn records the transaction id of a delivered mark.
func (c *Clients) learn(mark, transactionID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.learned[mark]
	if ok && before.id == transactionID {
		return
	}
	c.learned[mark] = learning{transactionID, c.cfg.Recorder.Now()}
	if ok {
		c.changed = append(c.changed, change{mark, before, transactionID})
	}
}

// Resolve sets the transaction ids of pushes without ids whose answers did not return them, if their messages were
// delivered. Call it after the drain. If an id stays empty, the message was never stored. A mark with two ids is a
// complaint, unless a promotion may have lost the first id: the server gives a row of the inbox its id when it stores
// it.
func (c *Clients) Resolve(operations []history.Operation) {
	c.mu.Lock()
	changed := c.changed
	c.changed = nil
	c.mu.Unlock()
	for _, one := range changed {
		if !slices.ContainsFunc(operations, func(o history.Operation) bool {
			return o.Kind == history.Rewound && o.Begin <= one.before.at && one.before.at <= o.End
		}) {
			c.complain("the message %s was pushed once and is stored twice, as %s and %s", one.mark, one.before.id, one.now)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range operations {
		marks := c.anonymous[operations[i].ID]
		for j := range marks {
			if item := &operations[i].Items[j]; item.TransactionID == "" {
				item.TransactionID = c.learned[marks[j]].id
			}
		}
	}
}
