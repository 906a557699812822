package pages

import (
	"html/template"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// deadPage is how many dead letters one page lists.
	deadPage     = "50"
	deadExamined = "10000" // how many dead letters one page counts
	// maxCounts is the maximum number of errors on one page, and also the maximum number of partitions.
	maxCounts = 20
)

// deadFilter has the filters of the page. From and To bound the instant of the failure. Both are included.
type deadFilter struct {
	Queue, Group, Partition, Error, Shape, From, To string
}

// link returns the URL of a page with the filters.
func (f deadFilter) link(path string, more ...string) template.URL {
	return page.Link(path, append([]string{"q", f.Queue, "g", f.Group, "p", f.Partition, "e", f.Error, "s", f.Shape, "from", f.From, "to", f.To}, more...)...)
}

type deadData struct {
	*api.DeadLetterSummary
	deadFilter
	// Wrong says why a filter is invalid.
	Wrong string
	// Next is the next page of the list. Further is the page that examines older dead letters. Back is the first page.
	Next, Further, Back template.URL
	Export, ExportCSV   template.URL
	CountLink           template.URL
	Rows                []*page.DeadRow // of Messages; nil: the message is deleted
	// AsOf bounds the actions to an earlier count. It is empty before a count.
	AsOf string
}

// Total describes the number of matching dead letters.
func (d *deadData) Total() string {
	if d.DeadLetterSummary.Total != nil && d.Back == "" {
		return page.Plural(*d.DeadLetterSummary.Total, "dead letter", "dead letters")
	}
	text := page.Plural(d.Matched, "dead letter", "dead letters")
	if d.DeadLetterSummary.Next != nil || d.Back != "" {
		return "at least " + text
	}
	return text
}

// Filtered reports whether there is a filter.
func (d *deadData) Filtered() bool { return d.deadFilter != deadFilter{} }

// ByError returns this page with the queue, group and error of a count as filters.
func (d *deadData) ByError(c *api.DeadLetterError) template.URL {
	f := d.deadFilter
	f.Queue, f.Group, f.Error = c.Queue, c.ConsumerGroup, c.ErrorMessage
	return f.link("dead")
}

// ByShape returns this page with the queue, group and shape of a count as filters. It drops the filter by error.
func (d *deadData) ByShape(c *api.DeadLetterShape) template.URL {
	return deadFilter{Queue: c.Queue, Group: c.ConsumerGroup, Partition: d.Partition, Shape: c.ErrorShape, From: d.From, To: d.To}.link("dead")
}

// ByPartition returns this page with the queue, group and partition of a count as filters.
func (d *deadData) ByPartition(c *api.DeadLetterPartition) template.URL {
	f := d.deadFilter
	f.Queue, f.Group, f.Partition = c.Queue, c.ConsumerGroup, c.Partition
	return f.link("dead")
}

// Of returns this page with the filters queue, group and partition. It keeps the filter by time, and
// drops the filter by error.
func (d *deadData) Of(queue, group, partition string) template.URL {
	return deadFilter{Queue: queue, Group: group, Partition: partition, From: d.From, To: d.To}.link("dead")
}

// instant parses a text that readTime has accepted.
func instant(text string) time.Time {
	at, _ := page.ParseInstant(text)
	return at
}

// readTime parses an instant of the filter, and returns it in the format of the API. It sets Wrong for an invalid instant.
func (d *deadData) readTime(text string) string {
	at, ok := page.ParseInstant(text)
	switch {
	case text == "":
		return ""
	case !ok:
		d.Wrong = "The instant " + page.Quoted(text) + " cannot be read: write it like 2026-05-16T08:41:27Z."
		return text
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func deadLetters(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &deadData{
		DeadLetterSummary: &api.DeadLetterSummary{}, deadFilter: deadFilter{Queue: q.Get("q"), Group: q.Get("g"), Partition: q.Get("p"), Error: q.Get("e"), Shape: q.Get("s")},
	}
	d.From, d.To = d.readTime(q.Get("from")), d.readTime(q.Get("to"))
	if d.Wrong == "" && d.From != "" && d.To != "" && instant(d.To).Before(instant(d.From)) {
		d.Wrong = "The end is before the beginning. Swap them."
	}
	if d.Wrong != "" {
		return &page.Content{Title: "Dead letters", Data: d}, nil
	}
	filters := []string{"queue", d.Queue, "consumerGroup", d.Group, "partition", d.Partition, "error", d.Error, "errorShape", d.Shape, "from", d.From, "to", d.To}
	summary := string(page.Link("/api/v1/dlq/summary", append(filters, "limit", deadPage, "examine", deadExamined, "cursor", q.Get("after"))...))
	found, err := source.Read[api.DeadLetterSummary](r.Ctx, r.Client, r.Caller, summary)
	if err != nil {
		return nil, err
	}
	shown := *found
	shown.Messages = slices.Clone(found.Messages)
	for i := range shown.Messages {
		d.Rows = append(d.Rows, page.LetterRow(r, &shown.Messages[i]))
		shown.Messages[i].ErrorMessage = page.ClipText(shown.Messages[i].ErrorMessage)
	}
	shown.Shapes = found.Shapes[:min(len(found.Shapes), maxCounts)]
	shown.Errors, shown.Partitions = found.Errors[:min(len(found.Errors), maxCounts)], found.Partitions[:min(len(found.Partitions), maxCounts)]
	d.DeadLetterSummary = &shown
	if next := found.Pagination.Next; next != nil {
		d.Next = d.link("dead", "after", *next)
	}
	if next := found.Next; next != nil {
		d.Further = d.link("dead", "after", *next)
	}
	if q.Has("after") {
		d.Back = d.link("dead")
	}
	d.Export, d.ExportCSV = d.link("export"), d.link("export", "format", "csv")
	d.CountLink, d.AsOf = d.link("count"), q.Get("as-of")
	return &page.Content{Title: "Dead letters", Data: d, Commands: deadCommands(r, d, filters)}, nil
}

// deadCommands returns the commands of the page of dead letters.
func deadCommands(r *page.Request, d *deadData, filters []string) []page.Command {
	failed := []string{"--error", d.Error, "--error-shape", d.Shape, "--from", d.From, "--to", d.To}
	list := page.Flags([]string{"dlq", "list"}, append([]string{"--queue", d.Queue, "--group", d.Group, "--partition", d.Partition}, failed...)...)
	errorsOf := page.Flags([]string{"dlq", "errors"}, append([]string{"--queue", d.Queue, "--group", d.Group, "--partition", d.Partition}, failed...)...)
	commands := []page.Command{
		r.Get("List the dead letters", string(page.Link("/api/v1/dlq", filters...)), list...),
		r.Get("Count them by error and by partition", string(page.Link("/api/v1/dlq/summary", filters...)), errorsOf...),
	}
	if d.Queue == "" || d.Group == "" {
		return commands
	}
	body := `{"queue": ` + page.Quoted(d.Queue) + `, "consumerGroup": ` + page.Quoted(d.Group)
	redrive := page.Flags(append([]string{"dlq", "redrive", d.Queue}, page.CLIGroup(d.Group)...), append([]string{"--partition", d.Partition}, failed...)...)
	if d.Partition+d.Error+d.Shape+d.From+d.To == "" {
		body, redrive = body+`, "all": true`, append(redrive, "--all")
	}
	for _, f := range [][2]string{{"partition", d.Partition}, {"error", d.Error}, {"errorShape", d.Shape}, {"from", d.From}, {"to", d.To}} {
		if f[1] != "" {
			body += `, "` + f[0] + `": ` + page.Quoted(f[1])
		}
	}
	return append(commands,
		r.Command("Redrive them", "POST", "/api/v1/dlq/redrive", body+"}", redrive),
		r.Command("Redrive them, and watch it", "POST", "/api/v1/dlq/redrive/stream", body+`, "rate": 100}`, nil))
}
