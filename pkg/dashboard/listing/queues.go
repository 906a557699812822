package listing

import (
	"html/template"
	"net/http"
	"net/url"
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
	{"processing", "In delivery"}, {"failing", "Failing"}, {"failed", "Failed"}, {"dead", "Dead letters"}, {"lag", "Oldest"}, {"latency", "p99"}, {"hour", "Last hour"},
}

// defaultColumns are the shown columns if the URL names none.
var defaultColumns = []string{"partitions", "pending", "processing", "dead", "lag", "latency", "hour"}

// sorts are the orders of the API by the columns that a list of queues or groups can be sorted by.
var sorts = map[string]string{
	"pending": "pending", "left": "backlog", "dead": "deadLetters", "lag": "oldest", "failing": "failures", "partitions": "partitions", "stored": "stored", "consumed": "consumed",
	"failed": "failed",
}

type queuesData struct {
	Rows    []queueRow
	Columns []column
	Shown   map[string]bool
	// Name, Namespace and Task are the filters. Filtered is true if one of them is set.
	Name, Namespace, Task string
	Filtered              bool
	Namespaces, Tasks     []string
	// Sort is a key of sorts, or empty. Sorts are the links for other orders. Total counts the queues that the caller may see.
	Sort  string
	Sorts map[string]template.URL
	Total *api.Totals
	// First and Next are the links to other pages.
	First, Next template.URL
	// Empty says that there is no queue at all.
	Empty     bool
	CountedAt time.Time
}

type queueRow struct {
	api.CountedQueue
	P99  float64
	Line template.HTML
	// Fill is the length of the gauge from 0 to 10: the pending messages relative to the largest number on the page.
	Fill int
	// Failed counts the failed acknowledgments of the last hour. It is known if the list is sorted by it.
	Failed int64
}

// Queues is the page of all queues.
func Queues(r *page.Request) (*page.Content, error) {
	data := &queuesData{
		Columns: columns, Shown: shownColumns(r.Query["c"]),
		Name: r.Query.Get("name"), Namespace: r.Query.Get("namespace"), Task: r.Query.Get("task"), Sort: r.Query.Get("sort"),
	}
	if data.Sort == "failed" {
		data.Shown["failed"] = true
	}
	data.Filtered = data.Name != "" || data.Namespace != "" || data.Task != ""
	path := string(page.Link("/api/v1/queues", "limit", queuesPage, "name", data.Name, "namespace", data.Namespace, "task", data.Task, "sort", sorts[data.Sort]))
	if r.Query.Has("after") {
		path += "&cursor=" + template.URLQueryEscaper(r.Query.Get("after"))
		data.First = page.With(r, "queues", "after", "")
	}
	found, err := source.Read[api.QueuePage](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	ops, err := operations(r, found.Queues)
	if err != nil {
		return nil, err
	}
	if data.Total, err = source.Read[api.Totals](r.Ctx, r.Client, r.Caller, "/api/v1/totals"); err != nil {
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

// operations returns the counts of the last hour of the listed queues.
func operations(r *page.Request, listed []api.CountedQueue) (*api.QueueOps, error) {
	if len(listed) == 0 {
		return &api.QueueOps{}, nil
	}
	names := url.Values{"live": {"false"}}
	for i := range listed {
		names.Add("queues", listed[i].Name)
	}
	return source.Read[api.QueueOps](r.Ctx, r.Client, r.Caller, "/api/v1/analytics/queue-ops?"+names.Encode())
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

// list makes the rows.
func (d *queuesData) list(r *page.Request, found *api.QueuePage) {
	most := int64(1)
	for _, q := range found.Queues {
		d.Rows = append(d.Rows, queueRow{CountedQueue: q, Failed: page.Optional(q.FailedLastHour)})
		most = max(most, q.Messages.Pending)
	}
	for i := range d.Rows {
		d.Rows[i].Fill = int((d.Rows[i].Messages.Pending*10 + most - 1) / most)
	}
	if next := found.Pagination.Next; next != nil {
		d.Next = page.With(r, "queues", "after", *next)
	}
	d.CountedAt, d.Sorts = found.CountedAt, sortLinks(r, "queues")
	d.Empty = len(d.Rows) == 0 && !d.Filtered && d.First == "" && d.Next == ""
}

// sortLinks are the links for the orders of a list, by column.
func sortLinks(r *page.Request, path string) map[string]template.URL {
	links := map[string]template.URL{"name": page.With(r, path, "sort", "")}
	for key := range sorts {
		links[key] = page.With(r, path, "sort", key)
	}
	return links
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

// draw adds the small chart of the last hour to each row, and the p99 of the last minute with a delivery. Both leave out the
// minute that has not ended, unless the first delivery is in it.
func (d *queuesData) draw(ops *api.QueueOps) {
	at := map[string]int{}
	for i := range d.Rows {
		at[d.Rows[i].Name] = i
	}
	values, end := make([][]float64, len(d.Rows)), ops.TimeRange.To.Truncate(time.Duration(max(1, ops.BucketMinutes))*time.Minute)
	width := end.Sub(ops.TimeRange.From) / sparkBuckets
	for i := range d.Rows {
		values[i] = make([]float64, sparkBuckets)
	}
	var newest = map[int]time.Time{}
	for i := range slices.Backward(ops.Series) { // the oldest first
		b := &ops.Series[i]
		row, shown := at[b.QueueName]
		if !shown || width <= 0 || !b.Bucket.Before(end) && !newest[row].IsZero() {
			continue
		}
		if slot := min(int(b.Bucket.Sub(ops.TimeRange.From)/width), sparkBuckets-1); slot >= 0 {
			values[row][slot] += b.PopPerSecond
		}
		if b.PopMessages > 0 && b.Bucket.After(newest[row]) {
			newest[row], d.Rows[row].P99 = b.Bucket.Time, b.P99Ms
		}
	}
	for i := range d.Rows {
		d.Rows[i].Line = chart.Spark("deliveries of "+d.Rows[i].Name+" in the last hour", values[i])
	}
}
