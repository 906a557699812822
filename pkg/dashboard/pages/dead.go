package pages

import (
	"html/template"
	"slices"
	"time"

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
	// Queue, Group, Partition, Error, and the instants From and To of the failure are the filters.
	Queue, Group, Partition, Error, From, To string
	// Wrong says why a filter cannot be used.
	Wrong string
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
func (d *deadData) Filtered() bool { return d.Queue+d.Group+d.Partition+d.Error+d.From+d.To != "" }

// link returns this page with another place in the list.
func (d *deadData) link(after string) template.URL {
	return d.to("dead", d.Queue, d.Group, d.Partition, d.Error, "after", after)
}

// ByError and ByPartition return this page with the filters of a count.
func (d *deadData) ByError(c *source.DeadLetterCount) template.URL {
	return d.to("dead", c.Queue, c.ConsumerGroup, d.Partition, c.ErrorMessage)
}

// ByPartition is ByError for a partition.
func (d *deadData) ByPartition(c *source.DeadLetterCount) template.URL {
	return d.to("dead", c.Queue, c.ConsumerGroup, c.Partition, d.Error)
}

// Of returns this page for a queue, and for a group and a partition if they are not empty.
func (d *deadData) Of(queue, group, partition string) template.URL {
	return d.to("dead", queue, group, partition, "")
}

// to is a link with filters and the time of the page.
func (d *deadData) to(path, queue, group, partition, text string, more ...string) template.URL {
	return page.Link(path, append([]string{"q", queue, "g", group, "p", partition, "e", text, "from", d.From, "to", d.To}, more...)...)
}

// readTime reads an instant of the filter. It returns the text as the API reads it.
func (d *deadData) readTime(text string) string {
	at, ok := parseInstant(text)
	switch {
	case text == "":
		return ""
	case !ok:
		d.Wrong = "The instant cannot be read: write it like 2026-05-16T08:41:27Z."
		return text
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func deadLetters(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &deadData{Queue: q.Get("q"), Group: q.Get("g"), Partition: q.Get("p"), Error: q.Get("e"), DeadLetters: &source.DeadLetters{}}
	d.From, d.To = d.readTime(q.Get("from")), d.readTime(q.Get("to"))
	if d.Wrong != "" {
		return &page.Content{Title: "Dead letters", Data: d}, nil
	}
	filters := []string{"queue", d.Queue, "consumerGroup", d.Group, "partition", d.Partition, "error", d.Error, "from", d.From, "to", d.To}
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
	d.Export = d.to("export", d.Queue, d.Group, d.Partition, d.Error)
	return &page.Content{Title: "Dead letters", Data: d, Commands: deadCommands(r, d, filters)}, nil
}

// deadCommands are the commands of the page of dead letters.
func deadCommands(r *page.Request, d *deadData, filters []string) []page.Command {
	failed := []string{"--from", d.From, "--to", d.To}
	list := page.Flags([]string{"dlq", "list"}, append([]string{"--queue", d.Queue, "--group", d.Group, "--partition", d.Partition}, failed...)...)
	commands := []page.Command{
		r.Get("List the dead letters", string(page.Link("/api/v1/dlq", filters...)), list...),
		r.Get("Count them by error and by partition", string(page.Link("/api/v1/dlq/summary", filters...))),
	}
	if d.Queue == "" || d.Group == "" {
		return commands
	}
	body := `{"queue": ` + page.Quoted(d.Queue) + `, "consumerGroup": ` + page.Quoted(d.Group)
	redrive := page.Flags(append([]string{"dlq", "redrive", d.Queue}, page.CLIGroup(d.Group)...), append([]string{"--partition", d.Partition}, failed...)...)
	if d.Error != "" {
		redrive = nil // the command has no flag for an error
	}
	if d.Partition+d.Error+d.From+d.To == "" {
		body, redrive = body+`, "all": true`, append(redrive, "--all")
	}
	for _, f := range [][2]string{{"partition", d.Partition}, {"error", d.Error}, {"from", d.From}, {"to", d.To}} {
		if f[1] != "" {
			body += `, "` + f[0] + `": ` + page.Quoted(f[1])
		}
	}
	return append(commands,
		r.Command("Redrive them", "POST", "/api/v1/dlq/redrive", body+"}", redrive),
		r.Command("Redrive them, and watch it", "POST", "/api/v1/dlq/redrive/stream", body+`, "rate": 100}`, nil))
}
