package pages

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// The page of a message shows the state for at most maxReaders groups, and maxSteps traces in its timeline.
const maxReaders, maxSteps = 20, 200

type messageData struct {
	*api.StoredMessage
	Failed *api.MessageAttempts
	// Self is the path of the page.
	Self    string
	Viewer  page.Payload
	Readers []messageReader
	// More is the number of omitted groups.
	More int
	// Givers are the groups for which the caller may make the message a dead letter.
	Givers []string
	// Steps are past steps with a stored instant, in the order of time. Undated are past steps without a stored
	// instant. Next are future steps that happen without an action, for example the end of a lease.
	Steps, Undated, Next []step
}

// messageReader is the state of a message for a group.
type messageReader struct {
	Name string
	// Level and State are the short state. Why has the details.
	Level, State string
	Why          *api.Explanation
	Dead         *api.DeadLetter
}

// step is a step in the timeline of a message.
type step struct {
	At                time.Time
	Level, What, Text string
	Group             string
	Data              *page.Payload
	// In a list of several messages, Partition is the id of the partition, and Place has the names of the queue and
	// the partition.
	Partition, Place string
}

// message shows one message.
func message(r *page.Request) (*page.Content, error) {
	partition, transaction := r.Query.Get("partition"), r.Query.Get("t")
	path := "/api/v1/messages/" + page.Esc(partition) + "/" + page.Esc(transaction)
	found, err := source.Read[api.StoredMessage](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	d := &messageData{StoredMessage: found, Self: string(page.Link("message", "partition", partition, "t", transaction)), Viewer: page.ViewPayload(found.Payload, page.MaxTree)}
	if d.Failed, err = source.Read[api.MessageAttempts](r.Ctx, r.Client, r.Caller, path+"/attempts"); err != nil {
		return nil, err
	}
	dead, err := source.Read[api.DeadLetters](r.Ctx, r.Client, r.Caller,
		string(page.Link("/api/v1/dlq", "queue", found.Queue, "partition", found.Partition, "transactionId", transaction, "limit", "100")))
	if err != nil {
		return nil, err
	}
	if err := d.read(r, dead.Messages); err != nil {
		return nil, err
	}
	traces, err := source.Read[api.Traces](r.Ctx, r.Client, r.Caller, "/api/v1/traces/"+page.Esc(partition)+"/"+page.Esc(transaction))
	if err != nil {
		return nil, err
	}
	changes, err := source.Read[api.Audit](r.Ctx, r.Client, r.Caller,
		string(page.Link("/api/v1/audit", "queue", found.Queue, "from", found.CreatedAt.UTC().Format(time.RFC3339Nano), "limit", "200")))
	if err != nil && !source.IsStatus(err, http.StatusForbidden) { // only administrators may read the audit
		return nil, err
	}
	d.tell(dead.Messages, traces.Traces, changes)
	return &page.Content{Title: "Message " + transaction, Data: d, Commands: d.commands(r, path)}, nil
}

// read reads the state of the message for each group.
func (d *messageData) read(r *page.Request, dead []api.DeadLetter) error {
	groups := slices.Clone(d.ConsumerGroups)
	if d.Mode.HasQueueMode || len(groups) == 0 {
		groups = append([]api.MessageGroup{{Name: page.QueueMode, Consumed: page.Optional(d.QueueStatus) == "completed"}}, groups...)
	}
	d.More = max(0, len(groups)-maxReaders)
	for _, g := range groups[:len(groups)-d.More] {
		one := messageReader{Name: g.Name, Level: "off", State: "pending"}
		if i := slices.IndexFunc(dead, func(l api.DeadLetter) bool { return l.ConsumerGroup == g.Name }); i >= 0 {
			letter := dead[i]
			letter.ErrorMessage = page.ClipText(letter.ErrorMessage)
			one.Dead = &letter
		}
		why, err := source.Read[api.Explanation](r.Ctx, r.Client, r.Caller, string(page.Link("/api/v1/explain",
			"queue", d.Queue, "partition", d.Partition, "consumerGroup", g.Name, "transactionId", d.TransactionID)))
		if err != nil {
			return err
		}
		one.Why = why
		one.Level, one.State = stateOf(one, g.Consumed)
		d.Readers = append(d.Readers, one)
		if one.Dead == nil && why.Code != "no_group" && r.Can.Consume(d.Queue, g.Name) {
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
	if d.Status == "pending" {
		move := append(append([]string{"messages", "move"}, key...), "--to", "15m")
		all = append(all, r.Command("Move it to another instant", http.MethodPatch, path, `{"delaySeconds":900}`, move))
	}
	return append(all, r.Command("Delete it", http.MethodDelete, path, "", append([]string{"messages", "delete"}, key...)))
}
