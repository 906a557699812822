package schedules

import (
	"html/template"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// listed is how many schedules a page of the list has.
	listed = "50"
	// late is how much later than its instant a message may be. It is longer than the time that another instance needs to take over.
	late = 10 * time.Second
)

// row is a schedule with its state in words.
type row struct {
	*api.Schedule
	Level, State string
}

type listData struct {
	Rows        []row
	Name, Queue string
	Next, First template.URL
}

// list shows a page of the schedules, by name.
func list(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &listData{Name: q.Get("name"), Queue: q.Get("q")}
	path := string(page.Link("/api/v1/schedules", "queue", d.Queue, "name", d.Name, "limit", listed, "cursor", q.Get("after")))
	found, err := source.Read[api.SchedulePage](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	for i := range found.Schedules {
		d.Rows = append(d.Rows, rowOf(&found.Schedules[i], r.Now))
	}
	if next := found.Pagination.Next; next != nil {
		d.Next = page.Link("schedules", "q", d.Queue, "name", d.Name, "after", *next)
	}
	if q.Has("after") {
		d.First = page.Link("schedules", "q", d.Queue, "name", d.Name)
	}
	words := page.Flags([]string{"schedule", "list"}, "--queue", d.Queue, "--name", d.Name)
	return &page.Content{Title: "Schedules", Data: d, Commands: []page.Command{r.Get("List the schedules", path, words...)}}, nil
}

// rowOf returns a schedule with its state.
func rowOf(s *api.Schedule, now time.Time) row {
	level, state := stateOf(s, now)
	return row{s, level, state}
}

func stateOf(s *api.Schedule, now time.Time) (level, text string) {
	switch {
	case s.Error != nil:
		return "bad", "error"
	case page.Optional(s.Paused):
		return "off", "paused"
	case isLate(s, now):
		return "bad", "late"
	case s.LastMessage != nil && s.LastMessage.Unfinished:
		return "warn", "waiting"
	case s.NextAt == nil:
		return "off", "no instant follows"
	}
	return "good", "active"
}

// isLate reports whether the next instant has passed without a message.
func isLate(s *api.Schedule, now time.Time) bool {
	jitter, _ := time.ParseDuration(s.Jitter) // 0 if there is none
	return s.NextAt != nil && now.Sub(*s.NextAt) > late+jitter
}

// Filtered reports whether the list has a filter.
func (d *listData) Filtered() bool { return d.Name != "" || d.Queue != "" }
