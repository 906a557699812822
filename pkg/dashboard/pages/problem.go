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
	// Kind is a short name of the problem. Text has the details.
	Kind, Text string
	// Names are the object with the problem: a queue, a group and a partition, or another text.
	Names []string
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
			Level: "bad", Kind: "Listener", Names: []string{d.Listener.State}, Link: page.Link("dispatcher"),
			Text:   "Wakes of other instances may not arrive. Waiting requests poll the database.",
			Advice: "See the connection of the listener to Postgres",
		})
	}
	if d.Inbox == nil {
		return found
	}
	if n := d.Inbox.Rejected; n > 0 {
		found = append(found, Problem{
			Level: "bad", Kind: "Inbox", Names: []string{page.Plural(n, "rejected row", "rejected rows")}, Link: page.Link("producers"),
			Text:   "Producers wrote these rows with SQL, but Belfry cannot store them as messages.",
			Advice: "Read the reason in belfry.inbox_rejected",
		})
	}
	if old := time.Duration(d.Inbox.OldestSeconds * float64(time.Second)); old > inboxWait {
		found = append(found, Problem{
			Level: "bad", Kind: "Inbox", Names: []string{page.Plural(d.Inbox.Waiting, "waiting row", "waiting rows")}, Link: page.Link("producers"),
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
	messages, wait := page.Plural(p.Messages, "message", "messages"), page.Plural(p.Messages, "message waits", "messages wait")
	name, group, partition := page.Optional(p.Queue), page.Optional(p.ConsumerGroup), page.Optional(p.Partition)
	q := Problem{Level: level(p.Urgent), Names: []string{name}, Age: page.Optional(p.AgeSeconds), Link: page.Link("queue", "q", name)}
	if group != "" {
		q.Names, q.Link = []string{name, page.GroupName(group)}, page.Link("group", "q", name, "g", group)
	}
	switch p.Kind {
	case "held_snapshot":
		q.Kind, q.Names, q.Link = "Open transaction", []string{page.Optional(p.Session)}, page.Link("system")
		q.Text, q.Advice = "Postgres cannot remove old row versions, and tables grow", "See how to end the transaction"
	case "schedule_late":
		q.Kind, q.Names = "Schedule", []string{page.Optional(p.Schedule)}
		q.Text, q.Advice = "The schedule is due, and no instance has stored its message", "See whether the instances run"
	case "schedule_error":
		q.Kind, q.Names = "Schedule", []string{page.Optional(p.Schedule)}
		q.Text, q.Advice = "The schedule stores no messages: "+page.Optional(p.Error), "Correct the schedule"
	case "stuck_head":
		q.Kind, q.Names, q.Link = "Stuck", append(q.Names, partition), page.Link("group", "q", name, "g", group, "p", partition)
		q.Text, q.Advice = "The first message was delivered "+page.Plural(p.Deliveries, "time", "times")+", and "+wait, "See why the message fails"
		if rest := page.Optional(p.RetryInSeconds); rest > 0 {
			q.Text = "The first message waits " + page.Span(time.Duration(rest)*time.Second) + " for a retry, and " + wait
		}
	case "lag":
		q.Kind, q.Text, q.Advice = "Lag", messages, "See why the messages wait"
	case "dead_letters":
		q.Kind, q.Link = "Dead letters", page.Link("dead", "q", name, "g", group)
		q.Text, q.Advice = messages+" failed too often", "Look at the errors, then redrive"
	case "paused_queue":
		q.Kind, q.Text, q.Advice = "Paused", wait, "Resume the queue"
	case "breaker_open":
		q.Kind, q.Text = "Breaker open", wait+" for the group"
		q.Advice = "Repair the service that the consumers need, and wait for the next try. Or close the breaker, or remove it from the limits"
	case "paused_group":
		q.Kind, q.Text, q.Advice = "Paused", wait+" for the group", "Resume the group"
	case "paused_partition":
		q.Kind, q.Names, q.Link = "Paused", []string{name, partition}, page.Link("queue", "q", name, "p", partition)
		q.Text, q.Advice = wait+" in the partition", "Resume the partition"
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
		found = append(found, Problem{Level: "bad", Kind: "Maintenance", Names: []string{name}, Link: page.Link("maintenance"), Text: text, Advice: "End the maintenance when the work is done"})
	}
	if switches.MaintenanceMode {
		add("push", "Pushes are kept on the disks of the instances: no consumer receives them.")
	}
	if switches.PopMaintenanceMode {
		add("pop", "No consumer receives a message.")
	}
	return found
}
