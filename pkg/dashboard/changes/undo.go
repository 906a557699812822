// Package changes has the pages about changes of operators: the audit, the preview of an undo, and the redrive jobs. It also
// checks options before the preview of the page of options.
package changes

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// Pages returns the pages.
func Pages() []*page.Page {
	return []*page.Page{
		{Path: "audit", Under: "system", Template: "audit", Load: auditLog},
		{Path: "undo", Under: "system", Template: "undo", Load: load},
		{Path: "jobs", Under: "dead", Template: "jobs", Load: jobs},
	}
}

type data struct {
	ID string
	// Refusal says why the change cannot be undone. Then Undo is nil.
	Refusal string
	Undo    *api.Undo
}

// Places returns the counts of the undo of a seek, or nil.
func (d *data) Places() *api.UndonePlaces { return d.Undo.Places }

// Text returns a value as a person writes it.
func (d *data) Text(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	if text == "" {
		return "(empty)"
	}
	return text
}

// Leases returns the number of leases that end.
func (d *data) Leases() int64 {
	if n := d.Undo.Places.LeasesEnded; n != nil {
		return *n
	}
	return 0
}

func load(r *page.Request) (*page.Content, error) {
	d := &data{ID: r.Query.Get("id")}
	path := "/api/v1/audit/" + page.Esc(d.ID) + "/undo"
	found, err := source.Read[api.Undo](r.Ctx, r.Client, r.Caller, path)
	content := &page.Content{Title: "Undo a change", Data: d}
	var refused *source.Error
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		d.Refusal = refused.Text
		return content, nil
	}
	if err != nil {
		return nil, err
	}
	d.Undo = found
	content.Commands = []page.Command{
		r.Get("Show what the undo would do", path, "audit", "undo", d.ID, "--dry-run"),
		r.Command("Undo the change", http.MethodPost, path, "", []string{"audit", "undo", d.ID}),
	}
	return content, nil
}
