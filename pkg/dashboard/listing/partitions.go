package listing

import (
	"html/template"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// partitionsData is a search for partitions of a queue.
type partitionsData struct {
	Queue, Name string
	// Found is nil if nothing is searched for.
	Found *api.PartitionSearch
	// First and Next are the links to the begin and the continuation of the search.
	First, Next template.URL
}

// Partitions is the page of a search for partitions. In a browser with scripts the search goes on by itself.
func Partitions(r *page.Request) (*page.Content, error) {
	data := &partitionsData{Queue: r.Query.Get("q"), Name: r.Query.Get("name")}
	content := &page.Content{Title: "Partitions of " + data.Queue, Data: data}
	if data.Name == "" {
		return content, nil
	}
	path := "/api/v1/resources/queues/" + page.Esc(data.Queue) + "/search"
	query := string(page.Link(path, "limit", queuesPage, "name", data.Name))
	if r.Query.Has("after") {
		query += "&cursor=" + template.URLQueryEscaper(r.Query.Get("after"))
		data.First = page.Link("partitions", "q", data.Queue, "name", data.Name)
	}
	var err error
	if data.Found, err = source.Read[api.PartitionSearch](r.Ctx, r.Client, r.Caller, query); err != nil {
		return nil, err
	}
	if next := data.Found.Pagination.Next; next != nil {
		data.Next = page.Link("partitions", "q", data.Queue, "name", data.Name, "after", *next)
	}
	content.Commands = []page.Command{r.Get("Search the partitions", query, "partition", "search", data.Queue, data.Name)}
	return content, nil
}

// Of is the number of partitions of the queue. It is 0 if it is not known.
func (d *partitionsData) Of() int64 { return page.Optional(d.Found.Of) }
