package pages

import (
	"html/template"
	"net/http"
	"slices"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// producersPage is the number of attached tables on one page, and also the number of rejected rows.
const producersPage = "25"

type producersData struct {
	// Dispatcher has the inbox. It is nil for a caller with grants.
	Dispatcher  *api.Dispatcher
	Attachments *api.Attachments
	Rejected    *api.RejectedRows
	// Queue and Code are the filters of the rejected rows.
	Queue, Code                    string
	Codes                          []page.Choice
	NextTables, NextRejected, Back template.URL
}

// producers shows the producers that write with SQL: the inbox, attached tables and rejected rows.
func producers(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &producersData{Queue: q.Get("q"), Code: q.Get("code"), Codes: page.Choices("", "any reason", "invalid", "invalid", "too_large", "too large", "queue_full", "queue full")}
	var err error
	if d.Dispatcher, err = may[api.Dispatcher](r, "/api/v1/status/dispatcher"); err != nil {
		return nil, err
	}
	tables := string(page.Link("/api/v1/attachments", "limit", producersPage, "cursor", q.Get("tables")))
	if d.Attachments, err = source.Read[api.Attachments](r.Ctx, r.Client, r.Caller, tables); err != nil {
		return nil, err
	}
	rejected := string(page.Link("/api/v1/inbox/rejected", "queue", d.Queue, "code", d.Code, "limit", producersPage, "cursor", q.Get("after")))
	if d.Rejected, err = source.Read[api.RejectedRows](r.Ctx, r.Client, r.Caller, rejected); err != nil {
		return nil, err
	}
	shown := *d.Rejected
	shown.Rows = slices.Clone(shown.Rows)
	for i := range shown.Rows {
		if excerpt := shown.Rows[i].Excerpt; excerpt != nil {
			clipped := page.ClipText(*excerpt)
			shown.Rows[i].Excerpt = &clipped
		}
	}
	d.Rejected = &shown
	if next := d.Attachments.Pagination.Next; next != nil {
		d.NextTables = page.Link("producers", "q", d.Queue, "code", d.Code, "after", q.Get("after"), "tables", *next)
	}
	if next := d.Rejected.Pagination.Next; next != nil {
		d.NextRejected = page.Link("producers", "q", d.Queue, "code", d.Code, "tables", q.Get("tables"), "after", *next)
	}
	if q.Has("after") || q.Has("tables") {
		d.Back = page.Link("producers", "q", d.Queue, "code", d.Code)
	}
	return &page.Content{Title: "Producers in SQL", Data: d, Commands: []page.Command{
		r.Get("List the attached tables", "/api/v1/attachments", "attachments"),
		r.Get("List the rejected rows", rejected),
		r.Command("Put the rejected rows back into the inbox", http.MethodPost, "/api/v1/inbox/rejected/retry", `{"all": true}`, nil),
		r.Get("Show the inbox", "/api/v1/status/dispatcher", "waiting"),
	}}, nil
}

// MayRetry reports whether the caller may retry all matching rows.
func (d *producersData) MayRetry(can page.Can) bool {
	return can.Push(d.Queue) && (d.Queue != "" || can.SeeAll())
}

// MayDiscard reports whether the caller may delete all matching rows.
func (d *producersData) MayDiscard(can page.Can) bool {
	return can.DeleteQueue(d.Queue) && (d.Queue != "" || can.SeeAll())
}
