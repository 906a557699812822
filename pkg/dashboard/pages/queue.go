package pages

import (
	"html/template"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// cellsPage is how many partitions one page of the heat map shows.
const cellsPage = "500"

// maxCells is about the most bytes of names in the list of a page.
const maxCells = 150_000

type queueData struct {
	*source.QueueStatus
	Name   string
	Groups []source.Group
	Cells  []cell
	// By is what colors a cell: pending, age or dead.
	By      string
	Chosen  *source.Partition
	Reasons []reason
	Chart   any
	Next    template.URL
	Back    template.URL
	Options []option
	Lag     int64
}

// cell is one partition of the heat map.
type cell struct {
	Name, Label string
	// Heat is from 0 to 5.
	Heat   int
	Link   template.URL
	Paused bool
}

// reason is what explain says of a partition and a group.
type reason struct {
	Group string
	*source.Explanation
}

// maxReasons is how many groups are explained for a partition.
const maxReasons = 5

func queue(r *page.Request) (*page.Content, error) {
	name, chosen := r.Query.Get("q"), r.Query.Get("p")
	path := "/api/v1/status/queues/" + page.Esc(name) + "?limit=" + cellsPage
	if r.Query.Has("after") {
		path += "&cursor=" + template.URLQueryEscaper(r.Query.Get("after"))
	}
	status, err := source.Read[source.QueueStatus](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	data := &queueData{QueueStatus: status, Name: name, By: r.Query.Get("by"), Options: optionsOf(status.Queue.Options)}
	groups, err := source.Read[[]source.Group](r.Ctx, r.Client, r.Caller, "/api/v1/consumer-groups")
	if err != nil {
		return nil, err
	}
	for _, g := range *groups {
		if g.QueueName == name {
			data.Groups, data.Lag = append(data.Groups, g), max(data.Lag, g.MaxTimeLag)
		}
	}
	if data.Chart, err = queueChart(r, name); err != nil {
		return nil, err
	}
	data.colorCells(r, chosen)
	if err := data.explain(r); err != nil {
		return nil, err
	}
	if next := status.Pagination.Next; next != nil && data.Next == "" {
		data.Next = page.Link("queue", "q", name, "by", data.By, "after", *next)
	}
	if r.Query.Has("after") {
		data.Back = page.Link("queue", "q", name, "by", data.By)
	}
	return &page.Content{Title: name, Data: data, Commands: []page.Command{
		r.Get("Show the queue", "/api/v1/status/queues/"+page.Esc(name), "queue", "get", name),
		r.Get("List its partitions", "/api/v1/resources/queues/"+page.Esc(name), "partition", "list", name),
		r.Command("Push a message", "POST", "/api/v1/push", `{"items": [{"queue": `+page.Quoted(name)+`, "payload": {"id": 1}}]}`, []string{"push", name, `{"id": 1}`}),
		r.Command("Pause the queue", "POST", "/api/v1/resources/queues/"+page.Esc(name)+"/pause", "", []string{"queue", "pause", name}),
		r.Command("Resume the queue", "POST", "/api/v1/resources/queues/"+page.Esc(name)+"/resume", "", []string{"queue", "resume", name}),
		r.Command("Delete the queue", "DELETE", "/api/v1/resources/queues/"+page.Esc(name), "", []string{"queue", "delete", name}),
	}}, nil
}

// colorCells colors the partitions of the page.
func (d *queueData) colorCells(r *page.Request, chosen string) {
	value := func(p *source.Partition) float64 {
		switch d.By {
		case "age":
			if p.Oldest == nil || p.Messages.Pending == 0 {
				return 0
			}
			return r.Now.Sub(*p.Oldest).Seconds()
		case "dead":
			return float64(p.Messages.DeadLetter)
		default:
			return float64(p.Messages.Pending)
		}
	}
	if d.By != "age" && d.By != "dead" {
		d.By = "pending"
	}
	most := 0.0
	for i := range d.Partitions {
		most = max(most, value(&d.Partitions[i]))
	}
	size := 0
	for i := range d.Partitions {
		p := &d.Partitions[i]
		if p.Name == chosen && r.Query.Has("p") {
			d.Chosen = p
		}
		heat := 0
		if v := value(p); v > 0 {
			heat = 1 + min(4, int(v/most*5))
		}
		one := cell{
			Name: p.Name, Heat: heat, Paused: p.Paused, Link: with(r, "queue", "p", p.Name) + "#partition",
			Label: p.Name + ": " + page.Num(p.Messages.Pending) + " pending, " + page.Num(p.Messages.DeadLetter) + " dead",
		}
		if size += len(one.Link) + 2*len(one.Label); size > maxCells {
			d.Next = page.Link("queue", "q", d.Name, "by", d.By, "after", d.Partitions[i-1].Name)
			break
		}
		d.Cells = append(d.Cells, one)
	}
}

// explain asks for the chosen partition why the groups receive nothing.
func (d *queueData) explain(r *page.Request) error {
	if d.Chosen == nil {
		return nil
	}
	for _, g := range d.Groups[:min(maxReasons, len(d.Groups))] {
		path := string(page.Link("/api/v1/explain", "queue", d.Name, "partition", d.Chosen.Name, "consumerGroup", g.Name))
		found, err := source.Read[source.Explanation](r.Ctx, r.Client, r.Caller, path)
		if err != nil {
			return err
		}
		d.Reasons = append(d.Reasons, reason{g.Name, found})
	}
	return nil
}

// queueChart is the chart of what happened to a queue in the last hour.
func queueChart(r *page.Request, name string) (any, error) {
	ops, err := source.Read[source.QueueOps](r.Ctx, r.Client, r.Caller, string(page.Link("/api/v1/analytics/queue-ops", "queue", name)))
	if err != nil {
		return nil, err
	}
	now := r.Now.Truncate(time.Minute)
	span := chart.Span{From: now.Add(-time.Hour), To: now, Step: time.Minute, Open: true}
	series := slices.Clone(ops.Series)
	slices.SortFunc(series, func(a, b source.QueueBucket) int { return a.Bucket.Compare(b.Bucket) })
	lines := []chart.Line{{Name: "pushed", Class: "a"}, {Name: "delivered", Class: "b"}, {Name: "acknowledged", Class: "c"}}
	for _, b := range series {
		for i, v := range []float64{b.PushPerSecond, b.PopPerSecond, b.AckPerSecond} {
			lines[i].Points = append(lines[i].Points, chart.Point{At: b.Bucket, Value: v})
		}
	}
	return chart.Lines("Messages per second of "+name+" in the last hour", "/s", span, lines), nil
}
