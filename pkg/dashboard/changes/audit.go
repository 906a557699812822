package changes

import (
	"html/template"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

type auditData struct {
	*api.Audit
	Action, Queue, Group, Subject string
	Actions                       []page.Choice
	Next, First                   template.URL
}

// auditLog lists the changes of operators.
func auditLog(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &auditData{Action: q.Get("action"), Queue: q.Get("q"), Group: q.Get("g"), Subject: q.Get("subject"), Actions: page.Actions()}
	path := string(page.Link("/api/v1/audit", "action", d.Action, "queue", d.Queue, "consumerGroup", d.Group, "subject", d.Subject, "limit", "100", "cursor", q.Get("after")))
	found, err := source.Read[api.Audit](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	d.Audit = found
	if next := found.Pagination.Next; next != nil {
		d.Next = page.Link("audit", "action", d.Action, "q", d.Queue, "g", d.Group, "subject", d.Subject, "after", *next)
	}
	if q.Has("after") {
		d.First = page.Link("audit", "action", d.Action, "q", d.Queue, "g", d.Group, "subject", d.Subject)
	}
	return &page.Content{Title: "Audit", Data: d, Commands: []page.Command{r.Get("List the changes", path, page.Flags([]string{"audit"}, "--action", d.Action, "--queue", d.Queue, "--group", d.Group, "--subject", d.Subject)...)}}, nil
}
