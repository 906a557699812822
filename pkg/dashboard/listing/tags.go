package listing

import (
	"html/template"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// tagsData is a page of namespaces or tasks.
type tagsData struct {
	Rows []api.CountedTag
	// Path is the path of the page, and One and Many name what it lists. Filter is the filter of the list of queues.
	Path, One, Many, Filter string
	// Name is the filter in force.
	Name string
	// Sort is a key of sorts, or empty. Sorts are the links for other orders.
	Sort        string
	Sorts       map[string]template.URL
	First, Next template.URL
	CountedAt   time.Time
}

// Namespaces is the page of all namespaces.
func Namespaces(r *page.Request) (*page.Content, error) {
	return tags(r, &tagsData{Path: "namespaces", One: "namespace", Many: "namespaces", Filter: "namespace"}, "Namespaces")
}

// Tasks is the page of all tasks.
func Tasks(r *page.Request) (*page.Content, error) {
	return tags(r, &tagsData{Path: "tasks", One: "task", Many: "tasks", Filter: "task"}, "Tasks")
}

func tags(r *page.Request, data *tagsData, title string) (*page.Content, error) {
	data.Name, data.Sort, data.Sorts = r.Query.Get("name"), r.Query.Get("sort"), sortLinks(r, data.Path)
	data.Sorts["queues"] = page.With(r, data.Path, "sort", "queues")
	order := sorts[data.Sort]
	if data.Sort == "queues" {
		order = "queues"
	}
	path := string(page.Link("/api/v1/totals/"+data.Path, "limit", queuesPage, "name", data.Name, "sort", order))
	if r.Query.Has("after") {
		path += "&cursor=" + template.URLQueryEscaper(r.Query.Get("after"))
		data.First = page.With(r, data.Path, "after", "")
	}
	found, err := source.Read[api.TagTotals](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	data.Rows, data.CountedAt = found.Tags, found.CountedAt
	if next := found.Pagination.Next; next != nil {
		data.Next = page.With(r, data.Path, "after", *next)
	}
	return &page.Content{Title: title, Data: data, Commands: []page.Command{
		r.Get("List the "+data.Many, path, "queue", data.Path),
	}}, nil
}

// Left returns the messages that some group has not finished.
func (*tagsData) Left(t api.CountedTag) int64 { return t.Messages.Pending + t.Messages.Processing }
