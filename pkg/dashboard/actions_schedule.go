package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/schedules"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// setSchedule creates or changes a schedule. It keeps the change of another person that was made since the form was shown.
func setSchedule(f form) (change, error) {
	name := f.Get("name")
	if name == "" {
		return change{}, errors.New("the schedule has no name: type one")
	}
	body, err := schedules.Body(f.Values)
	target := path("/api/v1/schedules/%s", name)
	return change{
		method: http.MethodPut, path: target, back: "schedule?" + url.Values{"name": {name}}.Encode(),
		describe: func(any) (string, bool) { return "The schedule " + name + " is set.", false },
		prepare: func(d *Dashboard, caller *source.Caller) (any, error) {
			var found api.Schedule
			err := d.client.Load(caller.Request.Context(), caller, target, &found)
			isNew, exists := f.Get("new") != "", !source.IsStatus(err, http.StatusNotFound)
			switch {
			case err != nil && exists:
				return nil, err
			case exists && isNew:
				return nil, schedules.Taken(name)
			case !exists && !isNew:
				return nil, errors.New("the schedule was deleted meanwhile: make a new one")
			case exists && schedules.Mark(&found) != f.Get("changed"):
				return nil, errors.New("another person has changed the schedule meanwhile: open the form again")
			}
			return body, nil
		},
	}, err
}

// pauseSchedule pauses or resumes a schedule.
func pauseSchedule(f form) change {
	c := pausing(f, path("/api/v1/schedules/%s", f.Get("name")), "The schedule is ")
	c.describe = func(any) (string, bool) {
		if f.Get("to") == "resume" {
			return "The schedule is resumed.", false
		}
		return "The schedule is paused: it stores no message until you resume it.", false
	}
	return c
}

// runSchedule stores a message of a schedule at once.
func runSchedule(f form) change {
	return change{method: http.MethodPost, path: path("/api/v1/schedules/%s/run", f.Get("name")), describe: func(answer any) (string, bool) {
		made, _ := answer.(map[string]any)
		return fmt.Sprintf("The message %v is stored.", made["transactionId"]), false
	}}
}

func deleteSchedule(f form) (change, error) {
	name := f.Get("name")
	return change{
		method: http.MethodDelete, path: path("/api/v1/schedules/%s", name), back: "schedules",
		describe: func(any) (string, bool) { return "The schedule " + name + " is deleted.", false },
	}, f.confirmed(name)
}

// previewSchedule serves POST schedule-edit: it shows the form of a schedule with its next instants, or with the reason why the
// server would refuse it. The payload is too long for an address, so the form is not sent with GET.
func (d *Dashboard) previewSchedule(w http.ResponseWriter, r *http.Request) {
	caller, err := d.session(w, r)
	if err != nil {
		redirect(w, "sign-in?"+url.Values{"next": {"schedules"}}.Encode())
		return
	}
	if d.cfg.ReadOnly {
		http.Error(w, errReadOnly.Error(), http.StatusForbidden)
		return
	}
	end, err := d.readForm(w, r, maxForm)
	defer end()
	if err != nil {
		setNotice(w, r, "No preview was made: "+errorText(err)+".", true)
		redirect(w, "schedules")
		return
	}
	query := r.PostForm
	query.Set("preview", "1")
	caller.Fresh = true
	view := d.view(caller, r)
	view.Since, view.Page = d.since(d.deps.Changes.Count()), d.pages.Find(schedules.Form)
	view.Here = string(page.Link(schedules.Form, "name", query.Get("name")))
	d.show(w, r, caller, view, query)
}
