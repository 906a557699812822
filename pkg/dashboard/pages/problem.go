package pages

import (
	"html/template"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// Problem is something that an operator should look at.
type Problem struct {
	// Level is bad or warn.
	Level string
	// Kind is one word for what is wrong. Name is what has the problem, and Text says more.
	Kind, Name, Text string
	// Age is that of the oldest message in seconds, or 0.
	Age  int64
	Link template.URL
	// Advice says what to do.
	Advice string
	size   int64
}

func (p *Problem) rank() int {
	if p.Level == "bad" {
		return 1
	}
	return 0
}

func level(bad bool) string {
	if bad {
		return "bad"
	}
	return "warn"
}

// serverProblems are what is wrong with this instance.
func serverProblems(d *source.Dispatcher) (found []Problem) {
	if d == nil {
		return nil
	}
	if d.Listener.State != "proven" {
		found = append(found, Problem{
			Level: "bad", Kind: "Listener", Name: d.Listener.State, Link: page.Link("dispatcher"), size: 1 << 62,
			Text:   "Wakes of other instances may not arrive. Waiting requests poll the database.",
			Advice: "See its connection to Postgres",
		})
	}
	if d.Inbox == nil {
		return found
	}
	if n := d.Inbox.Rejected; n > 0 {
		found = append(found, Problem{
			Level: "bad", Kind: "Inbox", Name: page.Plural(n, "rejected row", "rejected rows"), Link: page.Link("producers"), size: n,
			Text:   "Producers wrote them with SQL, and they cannot be stored as messages.",
			Advice: "Read the reason in belfry.inbox_rejected",
		})
	}
	if old := time.Duration(d.Inbox.OldestSeconds * float64(time.Second)); old > lateAfter*time.Second {
		found = append(found, Problem{
			Level: "bad", Kind: "Inbox", Name: page.Plural(d.Inbox.Waiting, "waiting row", "waiting rows"), Link: page.Link("producers"), size: d.Inbox.Waiting,
			Text:   "The oldest has waited for " + page.Span(old) + ".",
			Advice: "See who holds the lock of the sequencer",
		})
	}
	return found
}

// queueProblems are queues with dead letters, and paused queues with messages.
func queueProblems(queues []source.Queue) (found []Problem) {
	for i := range queues {
		q := &queues[i]
		if n := q.Messages.DeadLetter; n > 0 {
			found = append(found, Problem{
				Level: "warn", Kind: "Dead letters", Name: q.Name, Link: page.Link("dead", "q", q.Name), size: n,
				Text: page.Plural(n, "message", "messages") + " failed too often", Advice: "Look at the errors, then redrive",
			})
		}
		if q.Paused {
			found = append(found, Problem{
				Level: "warn", Kind: "Paused", Name: q.Name, Link: page.Link("queue", "q", q.Name), size: q.Messages.Pending,
				Text: page.Plural(q.Messages.Pending, "message waits", "messages wait"), Advice: "Resume the queue",
			})
		}
	}
	return found
}

// groupProblems are groups that are late, and paused ones.
func groupProblems(groups []source.Group) (found []Problem) {
	for i := range groups {
		g := &groups[i]
		name, to := g.QueueName+" · "+page.GroupName(g.Name), page.Link("group", "q", g.QueueName, "g", g.Name)
		switch {
		case g.Paused:
			found = append(found, Problem{
				Level: "warn", Kind: "Paused", Name: name, Link: to, size: g.TotalLag,
				Text: page.Plural(g.TotalLag, "message waits", "messages wait") + " for the group", Advice: "Resume the group",
			})
		case g.MaxTimeLag >= lateAfter:
			found = append(found, Problem{
				Level: level(g.MaxTimeLag >= veryLate), Kind: "Lag", Name: name, Link: to, size: g.MaxTimeLag,
				Text: page.Plural(g.TotalLag, "message", "messages") + " in " + page.Plural(g.PartitionsWithLag, "partition", "partitions"),
				Age:  g.MaxTimeLag, Advice: "See what waits, and why",
			})
		}
	}
	return found
}
