package pages

import (
	"html/template"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
)

// Problem is a problem in the list of the overview.
type Problem struct {
	// Level is bad or warn.
	Level string
	// Kind is a short name of the problem. Name is the object with the problem. Text has the details.
	Kind, Name, Text string
	// Age is the age of the oldest message in seconds, or 0.
	Age  int64
	Link template.URL
	// Advice is the next step for the operator.
	Advice string
}

func level(bad bool) string {
	if bad {
		return "bad"
	}
	return "warn"
}

// serverProblems returns the problems of the listener of this instance and of the inbox.
func serverProblems(d *api.Dispatcher) (found []Problem) {
	if d == nil {
		return nil
	}
	if d.Listener.State != "proven" {
		found = append(found, Problem{
			Level: "bad", Kind: "Listener", Name: d.Listener.State, Link: page.Link("dispatcher"),
			Text:   "Wakes of other instances may not arrive. Waiting requests poll the database.",
			Advice: "See the connection of the listener to Postgres",
		})
	}
	if d.Inbox == nil {
		return found
	}
	if n := d.Inbox.Rejected; n > 0 {
		found = append(found, Problem{
			Level: "bad", Kind: "Inbox", Name: page.Plural(n, "rejected row", "rejected rows"), Link: page.Link("producers"),
			Text:   "Producers wrote these rows with SQL, but Belfry cannot store them as messages.",
			Advice: "Read the reason in belfry.inbox_rejected",
		})
	}
	if old := time.Duration(d.Inbox.OldestSeconds * float64(time.Second)); old > page.LateAfter*time.Second {
		found = append(found, Problem{
			Level: "bad", Kind: "Inbox", Name: page.Plural(d.Inbox.Waiting, "waiting row", "waiting rows"), Link: page.Link("producers"),
			Text:   "The oldest row has waited for " + page.Span(old) + ".",
			Advice: "See which session holds the lock of the sequencer",
		})
	}
	return found
}

// listedProblems converts problems of queues and groups, and held snapshots.
func listedProblems(all []api.Problem) (found []Problem) {
	for i := range all {
		found = append(found, listedProblem(&all[i]))
	}
	return found
}

func listedProblem(p *api.Problem) Problem {
	messages := page.Plural(p.Messages, "message", "messages")
	name, group, partition := page.Optional(p.Queue), page.Optional(p.ConsumerGroup), page.Optional(p.Partition)
	q := Problem{Level: level(p.Urgent), Name: name, Age: page.Optional(p.AgeSeconds), Link: page.Link("queue", "q", name)}
	if group != "" {
		q.Name, q.Link = name+" · "+page.GroupName(group), page.Link("group", "q", name, "g", group)
	}
	switch p.Kind {
	case "held_snapshot":
		q.Kind, q.Name, q.Link = "Open transaction", page.Optional(p.Session), page.Link("system")
		q.Text, q.Advice = "Postgres cannot remove old row versions, and tables grow", "See how to end the transaction"
	case "stuck_head":
		q.Kind, q.Name, q.Link = "Stuck", q.Name+" · "+partition, page.Link("group", "q", name, "g", group, "p", partition)
		q.Text, q.Advice = "The first message was delivered "+page.Plural(p.Deliveries, "time", "times")+", and "+messages+" wait", "See why the message fails"
		if wait := page.Optional(p.RetryInSeconds); wait > 0 {
			q.Text = "The first message waits " + page.Span(time.Duration(wait)*time.Second) + " for a retry, and " + messages + " wait"
		}
	case "lag":
		q.Kind, q.Text, q.Advice = "Lag", messages, "See why the messages wait"
	case "dead_letters":
		q.Kind, q.Link = "Dead letters", page.Link("dead", "q", name, "g", group)
		q.Text, q.Advice = messages+" failed too often", "Look at the errors, then redrive"
	case "paused_queue":
		q.Kind, q.Text, q.Advice = "Paused", messages+" wait", "Resume the queue"
	case "paused_group":
		q.Kind, q.Text, q.Advice = "Paused", messages+" wait for the group", "Resume the group"
	case "paused_partition":
		q.Kind, q.Name, q.Link = "Paused", name+" · "+partition, page.Link("queue", "q", name, "p", partition)
		q.Text, q.Advice = messages+" wait in the partition", "Resume the partition"
	}
	return q
}

// maintenanceProblems returns a problem for each maintenance mode that is on. switches is nil for a caller who may not see
// the modes.
func maintenanceProblems(switches *api.Maintenance) (found []Problem) {
	if switches == nil {
		return nil
	}
	add := func(name, text string) {
		found = append(found, Problem{Level: "bad", Kind: "Maintenance", Name: name, Link: page.Link("maintenance"), Text: text, Advice: "End the maintenance when the work is done"})
	}
	if switches.MaintenanceMode {
		add("push", "Pushes are kept on the disks of the instances: no consumer receives them.")
	}
	if switches.PopMaintenanceMode {
		add("pop", "No consumer receives a message.")
	}
	return found
}
