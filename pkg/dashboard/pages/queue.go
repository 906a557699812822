package pages

import (
	"html/template"
	"slices"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/changes"
	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// groupsPage is how many groups of a queue are listed at once.
	groupsPage = "50"
	// The page explains the chosen partition for at most maxReasons groups.
	maxReasons = 5
)

type queueData struct {
	*api.QueueStatus
	*heatMap
	Name string
	// Groups are a page of the groups, with the totals of the queue.
	Groups                  *api.QueueGroups
	MoreGroups, FirstGroups template.URL
	Chosen                  *api.PartitionHeat
	Reasons                 []reason
	Chart                   any
	Backlog                 page.Backlog
	Acked                   page.Acked
	Zoom                    zoom
	Options                 []option
	Pauses                  changes.Pauses
}

// reason is the explanation of a partition for a group.
type reason struct {
	Group string
	*api.Explanation
}

func queue(r *page.Request) (*page.Content, error) {
	name := r.Query.Get("q")
	path := "/api/v1/resources/queues/" + page.Esc(name)
	status, err := source.Read[api.QueueStatus](r.Ctx, r.Client, r.Caller, "/api/v1/status/queues/"+page.Esc(name)+"?limit=0&countLimit=0")
	if err != nil {
		return nil, err
	}
	data := &queueData{QueueStatus: status, Name: name, Options: optionsOf(valuesOf(&status.Queue.Options))}
	paused := status.Queue.Paused || r.Query.Get("p") != ""
	if data.Pauses, err = changes.PausesOf(r, name, paused); err != nil {
		return nil, err
	}
	groups := string(page.Link(path+"/groups", "limit", groupsPage, "cursor", r.Query.Get("groups")))
	if data.Groups, err = source.Read[api.QueueGroups](r.Ctx, r.Client, r.Caller, groups); err != nil {
		return nil, err
	}
	data.pages(r)
	if data.heatMap, err = readHeat(r, name); err != nil {
		return nil, err
	}
	data.Zoom = readZoom(r, "queue")
	if err = data.draw(r); err != nil {
		return nil, err
	}
	if r.Query.Has("p") {
		if err := data.choose(r, path, r.Query.Get("p")); err != nil {
			return nil, err
		}
	}
	return &page.Content{Title: name, Data: data, Commands: []page.Command{
		r.Get("Show the queue", "/api/v1/status/queues/"+page.Esc(name), "queue", "get", name),
		r.Get("List its partitions", path, "partition", "list", name),
		r.Get("List its groups", path+"/groups"),
		r.Get("List the worst partitions", path+"/partitions?order=worst"),
		r.Command("Push a message", "POST", "/api/v1/push", `{"items": [{"queue": `+page.Quoted(name)+`, "payload": {"id": 1}}]}`, []string{"push", name, `{"id": 1}`}),
		r.Command("Pause the queue", "POST", path+"/pause", "", []string{"queue", "pause", name}),
		r.Command("Resume the queue", "POST", path+"/resume", "", []string{"queue", "resume", name}),
		r.Command("Delete the queue", "DELETE", path, "", []string{"queue", "delete", name}),
	}}, nil
}

// pages sets the links to other pages of groups.
func (d *queueData) pages(r *page.Request) {
	if next := d.Groups.Pagination.Next; next != nil {
		d.MoreGroups = page.Link("queue", "q", d.Name, "groups", *next)
	}
	if r.Query.Has("groups") {
		d.FirstGroups = page.Link("queue", "q", d.Name)
	}
}

// choose reads the chosen partition, and its explanation for each of the first maxReasons groups.
func (d *queueData) choose(r *page.Request, path, partition string) error {
	found, err := source.Read[api.PartitionHeats](r.Ctx, r.Client, r.Caller, path+"/partitions?limit=1&from="+template.URLQueryEscaper(partition))
	if err != nil {
		return err
	}
	if len(found.Partitions) == 0 || found.Partitions[0].Name != partition {
		return nil
	}
	d.Chosen = &found.Partitions[0]
	for _, g := range d.Groups.Groups[:min(maxReasons, len(d.Groups.Groups))] {
		path := string(page.Link("/api/v1/explain", "queue", d.Name, "partition", partition, "consumerGroup", g.Name))
		found, err := source.Read[api.Explanation](r.Ctx, r.Client, r.Caller, path)
		if err != nil {
			return err
		}
		d.Reasons = append(d.Reasons, reason{g.Name, found})
	}
	return nil
}

// draw reads what happened in the chosen time.
func (d *queueData) draw(r *page.Request) error {
	ops, span, err := d.Zoom.ops(r, d.Name, "")
	if err != nil {
		return err
	}
	m := &d.Groups.Messages
	d.Backlog = page.DrawBacklog(ops.Series, span, d.Zoom.Chosen, page.BacklogNow{Messages: m.Pending + m.Processing, Seconds: page.Optional(d.Groups.OldestSeconds)})
	series := slices.Clone(ops.Series)
	slices.SortFunc(series, func(a, b api.QueueBucket) int { return a.Bucket.Compare(b.Bucket.Time) })
	lines := []chart.Line{{Name: "pushed", Class: "a"}, {Name: "delivered", Class: "b"}, {Name: "acknowledged", Class: "c"}, {Name: "failed", Class: "d"}}
	for i := range series {
		b := &series[i]
		d.Acked.Add(b.AckSuccess, b.AckFailed, b.AckRetried)
		failed := b.AckPerSecond * float64(b.AckFailed) / float64(max(1, b.AckSuccess+b.AckFailed+b.AckRetried))
		for i, v := range []float64{b.PushPerSecond, b.PopPerSecond, b.AckPerSecond, failed} {
			lines[i].Points = append(lines[i].Points, chart.Point{At: b.Bucket.Time, Value: v})
		}
	}
	d.Chart = chart.Lines("Messages per second of "+d.Name, chart.PerSecond, span, lines)
	return nil
}
