package schedules

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

type oneData struct {
	row
	Instants Instants
	Viewer   page.Payload
	Missed   string
}

// Row is the schedule with its state.
func (d *oneData) Row() row { return d.row }

// Waiting reports whether the overlap group keeps the schedule from storing messages.
func (d *oneData) Waiting() bool { return d.LastMessage != nil && d.LastMessage.Unfinished }

// Instants are the next instants of a schedule.
type Instants struct {
	Zone string
	List []time.Time
}

// Local returns an instant as the clock of the zone shows it.
func (i Instants) Local(at time.Time) string {
	zone, err := time.LoadLocation(i.Zone)
	if err != nil {
		zone = time.UTC
	}
	return at.In(zone).Format("Mon 2006-01-02 15:04:05 -07:00")
}

// meanings says what happens to missed instants.
var meanings = map[string]string{"skip": "no message", "one": "one message for all of them", "all": "a message for each"}

// one shows a schedule.
func one(r *page.Request) (*page.Content, error) {
	name := r.Query.Get("name")
	path := pathOf(name)
	found, err := source.Read[api.Schedule](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	d := &oneData{row: rowOf(found, r.Now), Instants: Instants{found.Zone, found.Next}, Viewer: page.ViewPayload(found.Payload, page.MaxTree), Missed: meanings[found.Missed]}
	body, err := json.Marshal(found.SetSchedule)
	if err != nil {
		return nil, fmt.Errorf("encoding a schedule: %w", err)
	}
	return &page.Content{Title: "Schedule " + name, Data: d, Commands: []page.Command{
		r.Get("Show the schedule", path, "schedule", "get", name),
		r.Get("List its next instants", path+"/next?n=10", "schedule", "next", name),
		r.Command("Set it again", http.MethodPut, path, string(body), nil),
		r.Command("Store a message now", http.MethodPost, path+"/run", "", []string{"schedule", "run", name}),
		r.Command("Pause it", http.MethodPost, path+"/pause", "", []string{"schedule", "pause", name}),
		r.Command("Resume it", http.MethodPost, path+"/resume", "", []string{"schedule", "resume", name}),
		r.Command("Delete it", http.MethodDelete, path, "", []string{"schedule", "delete", name}),
	}}, nil
}

// pathOf returns the path of the API for a schedule.
func pathOf(name string) string { return "/api/v1/schedules/" + page.Esc(name) }
