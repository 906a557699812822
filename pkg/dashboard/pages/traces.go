package pages

import (
	"html/template"
	"slices"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

type tracesData struct {
	Name string
	// Names is set if Name is empty. Otherwise Found is set.
	Names *api.TraceNames
	Found *api.NamedTraces
	Views []page.Payload
	Next  template.URL
}

// traces lists the names of traces, or the traces of one name.
func traces(r *page.Request) (*page.Content, error) {
	d := &tracesData{Name: r.Query.Get("name")}
	var err error
	if d.Name == "" {
		d.Names, err = source.Read[api.TraceNames](r.Ctx, r.Client, r.Caller, "/api/v1/traces/names?limit=100&bound=1000")
		return &page.Content{Title: "Traces", Data: d, Commands: []page.Command{r.Get("List the names of traces", "/api/v1/traces/names", "trace", "names")}}, err
	}
	path := "/api/v1/traces/by-name/" + page.Esc(d.Name)
	found, err := source.Read[api.NamedTraces](r.Ctx, r.Client, r.Caller, string(page.Link(path, "limit", "50", "bound", "1000", "cursor", r.Query.Get("after"))))
	if err != nil {
		return nil, err
	}
	d.Found = found
	size := 0
	for i := range found.Traces {
		view := page.ViewPayload(found.Traces[i].Data, page.MaxTree-size)
		size += len(view.Tree)
		d.Views = append(d.Views, view)
	}
	if next := found.Pagination.Next; next != nil {
		d.Next = page.Link("traces", "name", d.Name, "after", *next)
	}
	return &page.Content{Title: "Traces " + d.Name, Data: d, Commands: []page.Command{r.Get("Show the traces", path, "trace", "show", d.Name)}}, nil
}

// Story returns the traces as steps, the oldest first.
func (d *tracesData) Story() []step {
	steps := make([]step, 0, len(d.Found.Traces))
	for i := range d.Found.Traces {
		t := &d.Found.Traces[i]
		steps = append(steps, step{At: t.CreatedAt, Level: "off", What: t.EventType, Group: t.ConsumerGroup, Text: page.Optional(t.TransactionID), Partition: t.PartitionID, Place: t.Queue + " / " + t.Partition, Data: &d.Views[i]})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.At.Compare(b.At) })
	return steps
}
