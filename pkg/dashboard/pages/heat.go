package pages

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// cellsPage is how many partitions one page of the heat map shows.
	cellsPage = "500"
	// maxCells is about the maximum size in bytes of the HTML of the squares.
	maxCells = 150_000
)

// heatMap shows partitions as squares.
type heatMap struct {
	Cells []cell
	// By is the figure that sets the color of a square: age, depth, failures or dead. Most is its largest value.
	By, Most string
	// Named is true if the squares are ordered by name, starting at From. Otherwise the map shows the worst partitions.
	Named bool
	From  string
	// Group limits the figures to one group, unless it is empty.
	Group      string
	Next, Back template.URL
	// Orders and Colors are links to the map with another order or another figure.
	Orders, Colors []view
}

// view is a link to another view of the same page.
type view struct {
	Text    string
	Link    template.URL
	Current bool
}

// cell is one partition of the heat map.
type cell struct {
	Label string
	// Heat is the color, from 0 to 5.
	Heat   int
	Link   template.URL
	Paused bool
}

// readHeat reads the partitions of a queue for its heat map. The query of the page selects the partitions.
func readHeat(r *page.Request, name string) (*heatMap, error) {
	m := &heatMap{By: r.Query.Get("by"), Named: r.Query.Get("order") == "name", From: r.Query.Get("from"), Group: r.Query.Get("g")}
	if !slices.Contains([]string{"depth", "failures", "dead"}, m.By) {
		m.By = "age"
	}
	m.Named = m.Named || m.From != "" || r.Query.Has("after")
	path := string(page.Link("/api/v1/resources/queues/"+page.Esc(name)+"/partitions", "limit", cellsPage, "consumerGroup", m.Group, "from", m.From))
	switch {
	case !m.Named:
		path += "&order=worst"
	case r.Query.Has("after"):
		path += "&cursor=" + template.URLQueryEscaper(r.Query.Get("after"))
	}
	found, err := source.Read[api.PartitionHeats](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	m.color(name, found)
	for _, one := range page.Choices("age", "oldest message", "depth", "messages left", "failures", "failures", "dead", "dead letters") {
		m.Colors = append(m.Colors, view{one.Text, m.link(name, "by", one.Value, "from", m.From, "after", r.Query.Get("after")), one.Value == m.By})
	}
	m.Orders = []view{{"the worst", m.link(name, "order", ""), !m.Named}, {"all, by name", m.link(name, "order", "name"), m.Named}}
	return m, nil
}

// link returns a link to the map with other values in its query.
func (m *heatMap) link(name string, pairs ...string) template.URL {
	order := ""
	if m.Named {
		order = "name"
	}
	return page.Link("queue", append([]string{"q", name, "g", m.Group, "by", m.By, "order", order}, pairs...)...) + "#partitions"
}

// value returns the figure that sets the color of a partition, and its text.
func (m *heatMap) value(p *api.PartitionHeat) (value int64, text string) {
	switch m.By {
	case "depth":
		return p.Lag, page.Plural(p.Lag, "message", "messages")
	case "failures":
		return p.Failures, page.Plural(p.Failures, "failure", "failures")
	case "dead":
		if p.MoreDeadLetters {
			return p.DeadLetters, page.AtLeast(p.DeadLetters, true) + " dead letters"
		}
		return p.DeadLetters, page.Plural(p.DeadLetters, "dead letter", "dead letters")
	default:
		return p.OldestSeconds, page.Span(time.Duration(p.OldestSeconds) * time.Second)
	}
}

// color creates the squares. When they exceed maxCells bytes, it stops, and the next page starts there.
func (m *heatMap) color(name string, found *api.PartitionHeats) {
	rows := slices.Clone(found.Partitions)
	if !m.Named { // the API orders the worst partitions by age
		slices.SortStableFunc(rows, func(a, b api.PartitionHeat) int {
			left, _ := m.value(&a)
			right, _ := m.value(&b)
			return cmp.Compare(right, left)
		})
	}
	var most int64
	for i := range rows {
		if v, text := m.value(&rows[i]); v > most {
			most, m.Most = v, text
		}
	}
	size, last := 0, found.Pagination.Next
	for i := range rows {
		p := &rows[i]
		one := cell{Label: label(p), Link: page.Link("queue", "q", name, "by", m.By, "g", m.Group, "p", p.Name) + "#partition", Paused: p.Paused}
		if p.Name == "" {
			one.Link = page.Link("queue", "q", name) + "&p=#partition"
		}
		if v, _ := m.value(p); v > 0 {
			one.Heat = 1 + int(min(4, v*5/most))
		}
		if size += len(one.Link) + 2*len(one.Label); size > maxCells && i > 0 {
			last = &rows[i-1].Name
			break
		}
		m.Cells = append(m.Cells, one)
	}
	if m.Named && last != nil {
		m.Next = m.link(name, "after", *last)
	}
	if m.Named {
		m.Back = m.link(name)
	}
}

// label returns the tooltip of a square.
func label(p *api.PartitionHeat) string {
	parts := []string{page.Plural(p.Lag, "message", "messages") + " left"}
	if p.OldestSeconds > 0 {
		parts = append(parts, "the oldest "+page.Span(time.Duration(p.OldestSeconds)*time.Second)+" old")
	}
	if p.Failures > 0 {
		parts = append(parts, "failed "+page.Plural(p.Failures, "time", "times"))
	}
	if p.DeadLetters > 0 {
		parts = append(parts, page.AtLeast(p.DeadLetters, p.MoreDeadLetters)+" dead")
	}
	switch {
	case p.Paused:
		parts = append(parts, "paused")
	case p.Leased:
		parts = append(parts, "leased")
	case p.Resting:
		parts = append(parts, "waits for an instant")
	}
	return p.Name + ": " + strings.Join(parts, ", ")
}
