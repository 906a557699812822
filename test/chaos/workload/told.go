package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// Counts are what the history does not hold.
type Counts struct {
	// Delivered messages, redeliveries included.
	Delivered int64
	// MalformedRefused were answered with 4xx. MalformedUnanswered met a fault, and so
	// did MalformedUnavailable, which were answered with 503.
	MalformedRefused, MalformedUnanswered, MalformedUnavailable int64
}

// Counts may be asked for at any time.
func (c *Crew) Counts() Counts {
	return Counts{c.messages.Load(), c.malformed[0].Load(), c.malformed[1].Load(), c.malformed[2].Load()}
}

// LastDelivery is when the latest delivery came, on the recorder's clock.
func (c *Crew) LastDelivery() time.Duration { return time.Duration(c.last.Load()) }

func (c *Crew) delivered(messages int) {
	c.messages.Add(int64(messages))
	c.last.Store(int64(c.cfg.Recorder.Now()))
}

// Complaints are the answers that no client expects, whatever the faults.
func (c *Crew) Complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	complaints := slices.Clone(c.complaints)
	if c.suppressed > 0 {
		complaints = append(complaints, fmt.Sprintf("and %d more", c.suppressed))
	}
	return complaints
}

// complain keeps the first complaints and counts the rest.
func (c *Crew) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.complaints) == mostComplaints {
		c.suppressed++
		return
	}
	c.complaints = append(c.complaints, fmt.Sprintf(format, args...))
}

// expect notes the marks of a push without transaction ids.
func (c *Crew) expect(operation int64, items []pushItem) {
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

// learn notes the transaction id of a mark that was delivered. A mark has one,
// for ever.
func (c *Crew) learn(mark, transactionID string) {
	c.mu.Lock()
	known, ok := c.learned[mark]
	if !ok {
		c.learned[mark] = transactionID
	}
	c.mu.Unlock()
	if ok && known != transactionID {
		c.complain("the message %s was pushed once and is stored twice, as %s and %s", mark, known, transactionID)
	}
}

// Resolve fills in the transaction ids of pushes without ids whose answer never
// came, as far as their messages were delivered. Call it after the drain; ids
// that it leaves empty belong to messages that were never stored.
func (c *Crew) Resolve(operations []history.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range operations {
		marks := c.anonymous[operations[i].ID]
		for j := range marks {
			if item := &operations[i].Items[j]; item.TransactionID == "" {
				item.TransactionID = c.learned[marks[j]]
			}
		}
	}
}
