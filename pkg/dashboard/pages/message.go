package pages

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// maxReaders is how many groups of a message are explained.
	maxReaders = 20
	// maxSteps is how many steps the history of a message shows.
	maxSteps = 200
)

type messageData struct {
	*source.StoredMessage
	// Self is the path of the page.
	Self    string
	Viewer  page.Payload
	Readers []messageReader
	// More is how many groups are not listed.
	More int
	// Givers are the groups for which the caller may make it a dead letter.
	Givers []string
	Steps  []step
}

// messageReader is what a group does with a message.
type messageReader struct {
	Name string
	// Level and State are the short state, and Why says more.
	Level, State string
	Why          *source.Explanation
	Dead         *source.DeadLetter
	// First says that Why.Failures and Why.Deliveries are of this message.
	First bool
}

// step is something that happened to a message.
type step struct {
	At                time.Time
	Level, What, Text string
	Group             string
	Data              *page.Payload
	// Partition is the id of the partition and Place its name with the queue, in lists of several messages.
	Partition, Place string
}

// message shows one message.
func message(r *page.Request) (*page.Content, error) {
	partition, transaction := r.Query.Get("partition"), r.Query.Get("t")
	path := "/api/v1/messages/" + page.Esc(partition) + "/" + page.Esc(transaction)
	found, err := source.Read[source.StoredMessage](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	d := &messageData{StoredMessage: found, Self: string(page.Link("message", "partition", partition, "t", transaction)), Viewer: page.ViewPayload(found.Payload)}
	dead, err := source.Read[source.DeadLetters](r.Ctx, r.Client, r.Caller,
		string(page.Link("/api/v1/dlq", "queue", found.Queue, "partition", found.Partition, "transactionId", transaction, "limit", "100")))
	if err != nil {
		return nil, err
	}
	if err := d.read(r, dead.Messages); err != nil {
		return nil, err
	}
	traces, err := source.Read[source.Traces](r.Ctx, r.Client, r.Caller, "/api/v1/traces/"+page.Esc(partition)+"/"+page.Esc(transaction))
	if err != nil {
		return nil, err
	}
	d.tell(dead.Messages, traces.Traces)
	return &page.Content{Title: "Message " + transaction, Data: d, Commands: d.commands(r, path)}, nil
}

// read asks for each group what it does with the message.
func (d *messageData) read(r *page.Request, dead []source.DeadLetter) error {
	groups := slices.Clone(d.ConsumerGroups)
	if d.Mode.HasQueueMode || len(groups) == 0 {
		groups = append([]source.MessageGroup{{Name: page.QueueMode, Consumed: page.Optional(d.QueueStatus) == "completed"}}, groups...)
	}
	d.More = max(0, len(groups)-maxReaders)
	for _, g := range groups[:len(groups)-d.More] {
		one := messageReader{Name: g.Name, Level: "off", State: "pending"}
		if i := slices.IndexFunc(dead, func(l source.DeadLetter) bool { return l.ConsumerGroup == g.Name }); i >= 0 {
			letter := dead[i]
			letter.ErrorMessage = page.ClipText(letter.ErrorMessage)
			one.Dead = &letter
		}
		why, err := source.Read[source.Explanation](r.Ctx, r.Client, r.Caller, string(page.Link("/api/v1/explain",
			"queue", d.Queue, "partition", d.Partition, "consumerGroup", g.Name, "transactionId", d.TransactionID)))
		if err != nil {
			return err
		}
		one.Why, one.First = why, page.Optional(why.NextTransactionID) == d.TransactionID
		one.Level, one.State = stateOf(one, g.Consumed)
		d.Readers = append(d.Readers, one)
		if one.Dead == nil && r.Can.Consume(d.Queue, g.Name) {
			d.Givers = append(d.Givers, g.Name)
		}
	}
	return nil
}

// stateOf returns the short state of a message for a group.
func stateOf(one messageReader, consumed bool) (level, text string) {
	switch {
	case one.Dead != nil:
		return "bad", "dead letter"
	case consumed || one.Why.Code == "acknowledged":
		return "good", "consumed"
	case one.Why.Code == "leased":
		return "warn", "in delivery"
	}
	return "off", strings.ReplaceAll(one.Why.Code, "_", " ")
}

// tell makes the history of the message: when it was stored, its failures and its traces.
func (d *messageData) tell(dead []source.DeadLetter, traces []source.Trace) {
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
	size := 0
	for i := range traces[:min(len(traces), maxSteps)] {
		t := &traces[i]
		one := step{At: t.CreatedAt, Level: "off", What: "Trace: " + t.EventType, Group: t.ConsumerGroup, Text: page.ClipText(strings.Join(t.Names, ", "))}
		if data := page.ViewPayload(t.Data); size+len(data.Tree) <= page.MaxTree {
			size += len(data.Tree)
			one.Data = &data
		}
		d.Steps = append(d.Steps, one)
	}
	slices.SortStableFunc(d.Steps, func(a, b step) int { return a.At.Compare(b.At) })
}

func (d *messageData) commands(r *page.Request, path string) []page.Command {
	key := []string{d.PartitionID, d.TransactionID}
	all := []page.Command{
		r.Get("Show the message", path, append([]string{"messages", "get"}, key...)...),
		r.Get("Explain why it is not delivered", string(page.Link("/api/v1/explain", "queue", d.Queue, "partition", d.Partition, "transactionId", d.TransactionID)),
			"explain", "--queue", d.Queue, "--partition", d.Partition, "--transaction-id", d.TransactionID),
	}
	if d.Status == "dead_letter" {
		all = append(all, r.Command("Deliver it again", http.MethodPost, path+"/retry", "", append([]string{"messages", "retry"}, key...)))
	}
	return append(all, r.Command("Delete it", http.MethodDelete, path, "", append([]string{"messages", "delete"}, key...)))
}
