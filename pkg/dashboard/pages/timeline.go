package pages

import (
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
)

// tell creates the timeline of a message across its groups from stored values. changes is nil if the caller may not read
// the audit.
func (d *messageData) tell(dead []api.DeadLetter, traces []api.Trace, changes *api.Audit) {
	stored := step{At: d.CreatedAt, Level: "good", What: "Stored"}
	if by := page.Optional(d.ProducerSub); by != "" {
		stored.Text = "by " + by
	}
	d.Steps = append(d.Steps, stored)
	for i := range dead {
		d.Steps = append(d.Steps, step{
			At: dead[i].FailedAt, Level: "bad", What: "Dead letter", Group: dead[i].ConsumerGroup,
			Text: "after " + page.Plural(dead[i].RetryCount+1, "attempt", "attempts") + ": " + page.ClipText(dead[i].ErrorMessage),
		})
	}
	for i := range d.Readers {
		d.tellReader(&d.Readers[i])
	}
	if changes != nil {
		d.tellChanges(changes)
	}
	d.tellTraces(traces)
	byTime := func(a, b step) int { return a.At.Compare(b.At) }
	slices.SortStableFunc(d.Steps, byTime)
	slices.SortStableFunc(d.Next, byTime)
}

// tellReader adds the stored attempts of a group.
func (d *messageData) tellReader(one *messageReader) {
	if one.Why.Code == "acknowledged" {
		text := "Or a seek passed the message."
		if at := one.Why.ConsumedAt; at != nil {
			text += " The group last consumed a message of this partition at " + at.UTC().Format("2006-01-02 15:04:05") + " UTC."
		}
		d.Undated = append(d.Undated, step{Level: "good", What: "Acknowledged", Group: one.Name, Text: text})
	}
	found := one.Why.Attempts
	if found == nil {
		return
	}
	if found.Deliveries > 0 {
		text := "None of them has failed."
		if found.Failures > 0 {
			text = page.Num(found.Failures) + " of them failed."
		}
		d.Undated = append(d.Undated, step{Level: "off", What: "Delivered " + page.Plural(found.Deliveries, "time", "times"), Group: one.Name, Text: text})
	}
	add := func(to *[]step, at *time.Time, level, what string) {
		if at != nil {
			*to = append(*to, step{At: *at, Level: level, What: what, Group: one.Name})
		}
	}
	add(&d.Steps, found.RedrivenAt, "good", "Redriven")
	add(&d.Next, found.LeasedUntil, "warn", "The lease ends, unless an ack ends it before")
	add(&d.Next, found.RetryAt, "off", "The next attempt may begin")
}

// tellChanges adds the changes of operators to this message.
func (d *messageData) tellChanges(changes *api.Audit) {
	texts := map[string]string{"message.retry": "Retried by an operator", "message.dead_letter": "Made a dead letter by an operator"}
	for i := range changes.Entries {
		e := &changes.Entries[i]
		if texts[e.Action] == "" || page.Optional(e.TransactionID) != d.TransactionID || page.Optional(e.Partition) != d.Partition || e.Result != "ok" {
			continue
		}
		one := step{At: e.At, Level: "off", What: texts[e.Action], Group: page.Optional(e.ConsumerGroup)}
		if by := page.Optional(e.Subject); by != "" {
			one.Text = "by " + by
		}
		d.Steps = append(d.Steps, one)
	}
}

// tellTraces adds the traces of consumers.
func (d *messageData) tellTraces(traces []api.Trace) {
	size := 0
	for i := range traces[:min(len(traces), maxSteps)] {
		t := &traces[i]
		one := step{At: t.CreatedAt, Level: "off", What: "Trace: " + t.EventType, Group: t.ConsumerGroup, Text: page.ClipText(strings.Join(t.Names, ", "))}
		data := page.ViewPayload(t.Data, page.MaxTree-size)
		size += len(data.Tree)
		one.Data = &data
		d.Steps = append(d.Steps, one)
	}
}
