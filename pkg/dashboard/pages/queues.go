package pages

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// queuesPage is how many queues one page lists.
const queuesPage = "50"

// sparkBuckets is how many values the small chart of a queue has.
const sparkBuckets = 30

// column is a column of the list of queues that can be hidden.
type column struct{ Key, Name string }

var columns = []column{
	{"namespace", "Namespace"}, {"task", "Task"}, {"groups", "Groups"}, {"partitions", "Partitions"}, {"stored", "Stored"}, {"pending", "Pending"},
	{"processing", "In delivery"}, {"dead", "Dead letters"}, {"lag", "Oldest"}, {"latency", "p99"}, {"hour", "Last hour"},
}

// defaultColumns are the shown columns if the URL names none.
var defaultColumns = []string{"partitions", "pending", "processing", "dead", "lag", "latency", "hour"}

// sorts compare two queues by a column, the largest first.
var sorts = map[string]func(a, b *queueRow) int{
	"pending": func(a, b *queueRow) int { return cmp.Compare(b.Messages.Pending, a.Messages.Pending) },
	"dead":    func(a, b *queueRow) int { return cmp.Compare(b.Messages.DeadLetter, a.Messages.DeadLetter) },
	"lag": func(a, b *queueRow) int {
		return cmp.Compare(page.Optional(b.OldestSeconds), page.Optional(a.OldestSeconds))
	},
	"partitions": func(a, b *queueRow) int { return cmp.Compare(b.Partitions, a.Partitions) },
	"stored":     func(a, b *queueRow) int { return cmp.Compare(b.Messages.Total, a.Messages.Total) },
}

type queuesData struct {
	Rows    []queueRow
	Columns []column
	Shown   map[string]bool
	// Name, Namespace and Task are the filters. Filtered is true if one of them is set.
	Name, Namespace, Task string
	Filtered              bool
	Namespaces, Tasks     []string
	// Sort is a key of sorts, or empty. Sorts are the links for other orders. Sorts is set only if all queues fit on
	// the page.
	Sort  string
	Sorts map[string]template.URL
	// First and Next are the links to other pages.
	First, Next template.URL
	// Empty is true if the caller sees no queue and there is no filter.
	Empty bool
}

type queueRow struct {
	api.CountedQueue
	P99  float64
	Line template.HTML
	// Fill is the length of the gauge from 0 to 10: the pending messages relative to the largest number on the page.
	Fill int
}

// maxDeadLetters is the largest number of dead letters that the list of queues counts.
const maxDeadLetters = 1000

// DeadLetters formats the number of dead letters.
func (q *queueRow) DeadLetters() string {
	return page.AtLeast(q.Messages.DeadLetter, q.Messages.DeadLetter >= maxDeadLetters)
}

func queues(r *page.Request) (*page.Content, error) {
	data := &queuesData{
		Columns: columns, Shown: shownColumns(r.Query["c"]),
		Name: r.Query.Get("name"), Namespace: r.Query.Get("namespace"), Task: r.Query.Get("task"), Sort: r.Query.Get("sort"),
	}
	data.Filtered = data.Name != "" || data.Namespace != "" || data.Task != ""
	path := string(page.Link("/api/v1/queues", "limit", queuesPage, "name", data.Name, "namespace", data.Namespace, "task", data.Task))
	if r.Query.Has("after") {
		path += "&cursor=" + template.URLQueryEscaper(r.Query.Get("after"))
		data.First = with(r, "queues", "after", "")
	}
	found, err := source.Read[api.QueuePage](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	ops, err := source.Read[api.QueueOps](r.Ctx, r.Client, r.Caller, "/api/v1/analytics/queue-ops?live=false")
	if err != nil {
		return nil, err
	}
	data.list(r, found)
	if err := data.tags(r); err != nil {
		return nil, err
	}
	data.draw(ops)
	return &page.Content{Title: "Queues", Data: data, Commands: []page.Command{
		r.Get("List the queues", path, "queue", "list"),
		r.Command("Create a queue", "POST", "/api/v1/configure", `{"queue": "orders", "options": {"leaseTime": 60}}`, []string{"queue", "configure", "orders", "--option", "leaseTime=60"}),
	}}, nil
}

func shownColumns(chosen []string) map[string]bool {
	if len(chosen) == 0 {
		chosen = defaultColumns
	}
	shown := map[string]bool{}
	for _, key := range chosen {
		shown[key] = true
	}
	return shown
}

// list sets Rows. It sorts the rows if the page has all matching queues.
func (d *queuesData) list(r *page.Request, found *api.QueuePage) {
	most := int64(1)
	for _, q := range found.Queues {
		d.Rows = append(d.Rows, queueRow{CountedQueue: q})
		most = max(most, q.Messages.Pending)
	}
	for i := range d.Rows {
		d.Rows[i].Fill = int((d.Rows[i].Messages.Pending*10 + most - 1) / most)
	}
	if next := found.Pagination.Next; next != nil {
		d.Next = with(r, "queues", "after", *next)
	}
	d.Empty = len(d.Rows) == 0 && !d.Filtered && d.First == "" && d.Next == ""
	if d.First != "" || d.Next != "" {
		d.Sort = ""
		return
	}
	d.Sorts = map[string]template.URL{"name": with(r, "queues", "sort", "")}
	for key := range sorts {
		d.Sorts[key] = with(r, "queues", "sort", key)
	}
	if compare := sorts[d.Sort]; compare != nil {
		slices.SortStableFunc(d.Rows, func(a, b queueRow) int { return compare(&a, &b) })
	}
}

// maxNames is how many namespaces or tasks a filter offers.
const maxNames = 200

// tags sets the namespaces and tasks that the filters offer. If the token has grants, these are the tags of the rows.
func (d *queuesData) tags(r *page.Request) error {
	found, err := source.Read[api.Tags](r.Ctx, r.Client, r.Caller, "/api/v1/tags?limit=300")
	switch {
	case err == nil:
		for _, pair := range found.Tags {
			d.Namespaces, d.Tasks = append(d.Namespaces, pair.Namespace), append(d.Tasks, pair.Task)
		}
	case source.IsStatus(err, http.StatusForbidden):
		for i := range d.Rows {
			d.Namespaces, d.Tasks = append(d.Namespaces, d.Rows[i].Namespace), append(d.Tasks, d.Rows[i].Task)
		}
	default:
		return err
	}
	d.Namespaces, d.Tasks = names(d.Namespaces), names(d.Tasks)
	return nil
}

// names returns the first maxNames distinct texts in order, without the empty text.
func names(all []string) []string {
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(text string) bool { return text == "" })
	return all[:min(len(all), maxNames)]
}

// with returns the URL of the shown page with another value in its query.
func with(r *page.Request, path, name, value string) template.URL {
	query := r.Query
	kept := make([]string, 0, 2*len(query))
	encoded := ""
	for key, values := range query {
		if key == "c" { // has several values
			for _, v := range values {
				encoded += "&c=" + template.URLQueryEscaper(v)
			}
		} else if key != name && key != "after" && len(values) > 0 {
			kept = append(kept, key, values[0])
		}
	}
	return page.Link(path, append(kept, name, value)...) + template.URL(encoded) //nolint:gosec // the values are escaped
}

// draw adds the small chart of the last hour to each row.
func (d *queuesData) draw(ops *api.QueueOps) {
	at := map[string]int{}
	for i := range d.Rows {
		at[d.Rows[i].Name] = i
	}
	values, end := make([][]float64, len(d.Rows)), ops.TimeRange.To
	width := end.Sub(ops.TimeRange.From) / sparkBuckets
	for i := range d.Rows {
		values[i] = make([]float64, sparkBuckets)
	}
	var newest = map[int]time.Time{}
	for i := range ops.Series {
		b := &ops.Series[i]
		row, shown := at[b.QueueName]
		if !shown || width <= 0 {
			continue
		}
		slot := int(b.Bucket.Sub(ops.TimeRange.From) / width)
		if slot >= 0 && slot < sparkBuckets {
			values[row][slot] += b.PopPerSecond
		}
		if b.Bucket.After(newest[row]) {
			newest[row], d.Rows[row].P99 = b.Bucket.Time, b.P99Ms
		}
	}
	for i := range d.Rows {
		d.Rows[i].Line = chart.Spark("deliveries of "+d.Rows[i].Name+" in the last hour", values[i])
	}
}
