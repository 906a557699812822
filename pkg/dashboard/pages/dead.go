package pages

import (
	"html/template"
	"slices"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// deadPage is how many dead letters one page lists.
	deadPage = "50"
	// maxCounts is how many errors, and how many partitions, one page lists.
	maxCounts = 20
)

type deadData struct {
	*source.DeadLetters
	// Queue, Group, Partition and Error are the filters.
	Queue, Group, Partition, Error string
	// Next is the next page of the list, and Further the page that examines older ones. Back is the first page.
	Next, Further, Back template.URL
	Export              template.URL
}

// Total says how many dead letters match.
func (d *deadData) Total() string {
	text := page.Plural(d.Matched, "dead letter", "dead letters")
	if d.DeadLetters.Next != nil || d.Back != "" {
		return "at least " + text
	}
	return text
}

// Filtered reports whether there is a filter.
func (d *deadData) Filtered() bool { return d.Queue+d.Group+d.Partition+d.Error != "" }

// link returns this page with another place in the list.
func (d *deadData) link(after string) template.URL {
	return page.Link("dead", "q", d.Queue, "g", d.Group, "p", d.Partition, "e", d.Error, "after", after)
}

// ByError and ByPartition return this page with the filters of a count.
func (d *deadData) ByError(c *source.DeadLetterCount) template.URL {
	return page.Link("dead", "q", c.Queue, "g", c.ConsumerGroup, "p", d.Partition, "e", c.ErrorMessage)
}

// ByPartition is ByError for a partition.
func (d *deadData) ByPartition(c *source.DeadLetterCount) template.URL {
	return page.Link("dead", "q", c.Queue, "g", c.ConsumerGroup, "p", c.Partition, "e", d.Error)
}

func deadLetters(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &deadData{Queue: q.Get("q"), Group: q.Get("g"), Partition: q.Get("p"), Error: q.Get("e")}
	filters := []string{"queue", d.Queue, "consumerGroup", d.Group, "partition", d.Partition, "error", d.Error}
	summary := string(page.Link("/api/v1/dlq/summary", append(filters, "limit", deadPage, "cursor", q.Get("after"))...))
	found, err := source.Read[source.DeadLetters](r.Ctx, r.Client, r.Caller, summary)
	if err != nil {
		return nil, err
	}
	shown := *found
	shown.Messages = slices.Clone(found.Messages)
	for i := range shown.Messages {
		shown.Messages[i].ErrorMessage = page.ClipText(shown.Messages[i].ErrorMessage)
	}
	shown.Errors, shown.Partitions = found.Errors[:min(len(found.Errors), maxCounts)], found.Partitions[:min(len(found.Partitions), maxCounts)]
	d.DeadLetters = &shown
	if next := found.Pagination.Next; next != nil {
		d.Next = d.link(*next)
	}
	if next := found.Next; next != nil {
		d.Further = d.link(*next)
	}
	if q.Has("after") {
		d.Back = d.link("")
	}
	d.Export = page.Link("export", "q", d.Queue, "g", d.Group, "p", d.Partition, "e", d.Error)
	return &page.Content{Title: "Dead letters", Data: d, Commands: deadCommands(r, d, filters)}, nil
}

// deadCommands are the commands of the page of dead letters.
func deadCommands(r *page.Request, d *deadData, filters []string) []page.Command {
	list := []string{"dlq", "list"}
	if d.Queue != "" {
		list = append(list, "--queue", d.Queue)
	}
	commands := []page.Command{
		r.Get("List the dead letters", string(page.Link("/api/v1/dlq", filters...)), list...),
		r.Get("Count them by error and by partition", string(page.Link("/api/v1/dlq/summary", filters...))),
	}
	if d.Queue == "" || d.Group == "" {
		return commands
	}
	body := `{"queue": ` + page.Quoted(d.Queue) + `, "consumerGroup": ` + page.Quoted(d.Group)
	redrive := append([]string{"dlq", "redrive", d.Queue, "--all"}, page.CLIGroup(d.Group)...)
	switch {
	case d.Error != "":
		body, redrive = body+`, "error": `+page.Quoted(d.Error), nil
	case d.Partition != "":
		redrive = append([]string{"dlq", "redrive", d.Queue, "--partition", d.Partition}, page.CLIGroup(d.Group)...)
	default:
		body += `, "all": true`
	}
	if d.Partition != "" {
		body += `, "partition": ` + page.Quoted(d.Partition)
	}
	return append(commands,
		r.Command("Redrive them", "POST", "/api/v1/dlq/redrive", body+"}", redrive),
		r.Command("Redrive them, and watch it", "POST", "/api/v1/dlq/redrive/stream", body+`, "rate": 100}`, nil))
}
