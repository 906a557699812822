package pages

import (
	"html/template"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// A place is a partition with the state of the group's cursor. placesFirst is how many places of each list the page
	// of a group shows. placesPage is how many places a page of one list shows.
	placesFirst, placesPage = "25", "100"
	// seekFirst is how many partitions the preview of a seek examines before the page is shown.
	seekFirst = "1000"
	// maxPlaces is about the maximum size of one list in bytes of HTML.
	maxPlaces = 80_000
)

type groupData struct {
	Queue, Name string
	// Group is nil if the group does not exist in the queue.
	Group       *api.GroupFigures
	CountedAt   time.Time
	Acked       page.Acked
	Zoom        zoom
	Backlog     page.Backlog
	QueuePaused bool
	Lists       []placeList
	Tabs        []view
	// List is the kind of the only list that the page shows. If it is empty, the page shows the first places of three
	// lists.
	List      string
	From      string
	Seek      *seekData
	Chosen    *api.Explanation
	Partition string
}

// placeList is a part of a list of places.
type placeList struct {
	Kind, Title, None string
	Places            []api.Place
	// Next and First are links to other pages of the list.
	Next, First template.URL
	Incomplete  bool
}

// lists are the lists of places: the name in the API, the title, and the text for an empty list.
var lists = []struct{ kind, title, none string }{
	{"due", "Due longest", "No partition has a message that can be delivered now."},
	{"leased", "Leases", "No lease is live."},
	{"resting", "Resting", "No message waits for a retry, a delay or a window."},
	{"name", "All, by name", "The group has no cursor in further partitions."},
}

// seekData is the preview of a seek.
type seekData struct {
	*api.SeekPreview
	// To is beginning, end or time. At is the instant for time. An empty Partition means all partitions.
	To, At, Partition string
	Error             string
	// CountLink counts a part of what the seek would do. It is empty if the preview is whole.
	CountLink template.URL
}

func group(r *page.Request) (*page.Content, error) {
	data := &groupData{Queue: r.Query.Get("q"), Name: r.Query.Get("g"), Partition: r.Query.Get("p"), List: r.Query.Get("list"), From: r.Query.Get("from")}
	path := page.GroupPath(data.Name, data.Queue)
	found, err := source.Read[api.GroupState](r.Ctx, r.Client, r.Caller, path+"?limit="+placesFirst)
	switch {
	case source.IsStatus(err, 404):
	case err != nil:
		return nil, err
	default:
		data.Group, data.QueuePaused, data.CountedAt = &found.Group, found.QueuePaused, found.CountedAt
		hour, err := source.Read[api.WorkerMetrics](r.Ctx, r.Client, r.Caller,
			string(page.Link("/api/v1/analytics/worker-metrics", "queue", data.Queue, "consumerGroup", data.Name, "live", "false")))
		if err != nil {
			return nil, err
		}
		data.Acked = page.Acked{All: hour.Summary.TotalAckMessages, Failed: hour.Summary.TotalAckFailed, Retried: hour.Summary.TotalAckRetried}
		data.Zoom = readZoom(r, "group")
		ops, span, err := data.Zoom.ops(r, data.Queue, data.Name)
		if err != nil {
			return nil, err
		}
		data.Backlog = page.DrawBacklog(ops.Series, span, data.Zoom.Chosen, page.BacklogNow{Messages: found.Group.Lag, Seconds: found.Group.OldestSeconds})
		if err := data.list(r, path, found); err != nil {
			return nil, err
		}
	}
	if data.Partition != "" {
		data.Chosen, err = source.Read[api.Explanation](r.Ctx, r.Client, r.Caller,
			string(page.Link("/api/v1/explain", "queue", data.Queue, "partition", data.Partition, "consumerGroup", data.Name)))
		if err != nil {
			return nil, err
		}
	}
	if to := r.Query.Get("seek"); to != "" && data.Group != nil {
		if data.Seek, err = data.previewSeek(r, to); err != nil {
			return nil, err
		}
	}
	return &page.Content{Title: page.GroupName(data.Name) + " in " + data.Queue, Data: data, Commands: []page.Command{
		r.Get("Show the group", path),
		r.Get("Show the progress of the group in all queues", "/api/v1/consumer-groups/"+page.Esc(data.Name), "group", "get", data.Name),
		r.Get("Count the messages that a seek would affect", path+"/seek?toBeginning=true"),
		r.Command("Move the group to the beginning", "POST", path+"/seek", `{"toBeginning": true}`, []string{"group", "seek", data.Name, data.Queue, "--to-beginning"}),
		r.Command("Pause the group", "POST", path+"/pause", "", []string{"group", "pause", data.Name, data.Queue}),
		r.Command("Resume the group", "POST", path+"/resume", "", []string{"group", "resume", data.Name, data.Queue}),
		r.Get("Explain a partition", string(page.Link("/api/v1/explain", "queue", data.Queue, "consumerGroup", data.Name)), append([]string{"explain", "--queue", data.Queue}, page.CLIGroup(data.Name)...)...),
	}}, nil
}

// list sets Lists: the first places of three lists, or a page of one list.
func (d *groupData) list(r *page.Request, path string, found *api.GroupState) error {
	d.Tabs = []view{{"overview", d.link(), d.List == ""}}
	for i, one := range lists {
		d.Tabs = append(d.Tabs, view{one.title, d.link("list", one.kind), d.List == one.kind})
		list := placeList{Kind: one.kind, Title: one.title, None: one.none}
		switch {
		case d.List == one.kind:
			places, err := d.readPlaces(r, path+"/partitions")
			if err != nil {
				return err
			}
			if d.fill(&list, places); r.Query.Has("after") || d.From != "" {
				list.First = d.link("list", d.List)
			}
			d.Lists = append(d.Lists, list)
		case d.List == "" && i < 3:
			d.fill(&list, []*api.PlaceList{&found.Places.Due, &found.Places.Leased, &found.Places.Resting}[i])
			if list.Next != "" {
				list.Next = d.link("list", one.kind)
			}
			d.Lists = append(d.Lists, list)
		}
	}
	return nil
}

// link returns a link to this page.
func (d *groupData) link(pairs ...string) template.URL {
	return page.Link("group", append([]string{"q", d.Queue, "g", d.Name}, pairs...)...)
}

// readPlaces reads a page of one list. If long names would make the page too large, it reads fewer places.
func (d *groupData) readPlaces(r *page.Request, path string) (*api.PlaceList, error) {
	target := []string{"list", d.List, "from", d.From}
	if r.Query.Has("after") {
		target = append(target, "cursor", r.Query.Get("after"))
	}
	found, err := source.Read[api.PlaceList](r.Ctx, r.Client, r.Caller, string(page.Link(path, append(target, "limit", placesPage)...)))
	if err != nil || d.fitting(found.Partitions) == len(found.Partitions) {
		return found, err
	}
	fewer := strconv.Itoa(d.fitting(found.Partitions))
	return source.Read[api.PlaceList](r.Ctx, r.Client, r.Caller, string(page.Link(path, append(target, "limit", fewer)...)))
}

// fitting returns how many of the places fit into maxPlaces bytes.
func (d *groupData) fitting(places []api.Place) int {
	size := 0
	for i := range places {
		if size += 2*len(d.link("p", places[i].Partition)) + len(places[i].Partition) + 600; size > maxPlaces && i > 0 {
			return i
		}
	}
	return len(places)
}

// fill sets the places of a list.
func (d *groupData) fill(list *placeList, found *api.PlaceList) {
	shown := d.fitting(found.Partitions)
	list.Places, list.Incomplete = found.Partitions[:shown], found.Pagination.Incomplete
	if next := found.Pagination.Next; next != nil || shown < len(found.Partitions) {
		list.Next = d.link("list", list.Kind, "after", page.Optional(next))
	}
}

// Count formats a number of the preview with its noun.
func (s *seekData) Count(n int64, one, many string) string {
	if s.CountsAreLowerBounds {
		return "At least " + page.Plural(n, one, many)
	}
	return page.Plural(n, one, many)
}

// Moment is the instant that the form sends. At the end, it is when the count began, so that a later message is not skipped.
func (s *seekData) Moment() string {
	if s.To == "end" {
		return s.CountedAt.UTC().Format(time.RFC3339Nano)
	}
	return s.At
}

// previewSeek counts what a seek of the group would deliver again or skip, in the first partitions. A script counts the rest.
func (d *groupData) previewSeek(r *page.Request, to string) (*seekData, error) {
	seek := &seekData{To: to, At: r.Query.Get("at"), Partition: r.Query.Get("in")}
	if to != "beginning" && to != "end" {
		at, ok := page.ParseInstant(seek.At)
		if !ok {
			seek.Error = "The instant cannot be read: write it like 2026-05-16T08:41:27Z."
			return seek, nil
		}
		seek.At = at.UTC().Format(time.RFC3339)
	}
	found, err := source.Read[api.SeekPreview](r.Ctx, r.Client, r.Caller, page.SeekPath(d.Name, d.Queue, to, seek.At, seek.Partition)+"&limit="+seekFirst)
	if err != nil {
		return nil, err
	}
	if seek.SeekPreview = found; found.Next != nil {
		seek.CountLink = page.Link("count-seek", "q", d.Queue, "g", d.Name, "to", to, "at", seek.At, "in", seek.Partition)
		if to == "end" {
			seek.CountLink = page.Link("count-seek", "q", d.Queue, "g", d.Name, "to", "time", "at", seek.Moment(), "in", seek.Partition)
		}
	}
	if seek.Partition != "" && seek.PartitionsExamined == 0 {
		seek.Error = "The group has no cursor in a partition with the name " + seek.Partition + "."
	}
	return seek, nil
}
