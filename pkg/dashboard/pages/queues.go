package pages

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// queuesPage is how many queues one page lists.
const queuesPage = 50

// sparkBuckets is how many values the line of a queue has.
const sparkBuckets = 30

// column is a column of the list of queues that can be hidden.
type column struct{ Key, Name string }

var columns = []column{
	{"namespace", "Namespace"}, {"task", "Task"}, {"partitions", "Partitions"}, {"stored", "Stored"}, {"pending", "Pending"},
	{"processing", "In delivery"}, {"dead", "Dead letters"}, {"lag", "Oldest"}, {"latency", "p99"}, {"hour", "Last hour"},
}

// defaultColumns are shown unless the URL names others.
var defaultColumns = []string{"partitions", "pending", "processing", "dead", "lag", "latency", "hour"}

type queuesData struct {
	Rows    []queueRow
	Columns []column
	Shown   map[string]bool
	// Name, Namespace, Task and Only are the filters in force.
	Name, Namespace, Task, Only string
	Namespaces, Tasks           []string
	Sort                        string
	Found, All                  int
	First, Last                 int
	Previous, Next              template.URL
	Sorts                       map[string]template.URL
}

type queueRow struct {
	source.Queue
	Lag  int64
	P99  float64
	Line template.HTML
	// Fill is how full the gauge is, from 0 to 10: the part of the largest number of pending messages.
	Fill    int
	Problem string
}

func queues(r *page.Request) (*page.Content, error) {
	all, err := source.Read[source.Queues](r.Ctx, r.Client, r.Caller, "/api/v1/resources/queues")
	if err != nil {
		return nil, err
	}
	groups, err := source.Read[[]source.Group](r.Ctx, r.Client, r.Caller, "/api/v1/consumer-groups")
	if err != nil {
		return nil, err
	}
	ops, err := source.Read[source.QueueOps](r.Ctx, r.Client, r.Caller, "/api/v1/analytics/queue-ops")
	if err != nil {
		return nil, err
	}
	data := &queuesData{
		Columns: columns, Shown: shownColumns(r.Query["c"]), All: len(all.Queues),
		Name: r.Query.Get("name"), Namespace: r.Query.Get("namespace"), Task: r.Query.Get("task"), Only: r.Query.Get("only"), Sort: r.Query.Get("sort"),
	}
	rows := data.filter(all.Queues, lagOf(*groups))
	data.sort(rows)
	data.cut(r, rows)
	data.draw(ops)
	return &page.Content{Title: "Queues", Data: data, Commands: []page.Command{
		r.Get("List the queues", "/api/v1/resources/queues", "queue", "list"),
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

// lagOf returns the age of the oldest unconsumed message of each queue, in seconds.
func lagOf(groups []source.Group) map[string]int64 {
	lag := map[string]int64{}
	for i := range groups {
		lag[groups[i].QueueName] = max(lag[groups[i].QueueName], groups[i].MaxTimeLag)
	}
	return lag
}

// filter returns the rows that the filters leave, and sets the lists of namespaces and tasks.
func (d *queuesData) filter(all []source.Queue, lag map[string]int64) []queueRow {
	rows, name := make([]queueRow, 0, len(all)), strings.ToLower(d.Name)
	for _, q := range all {
		d.Namespaces, d.Tasks = append(d.Namespaces, q.Namespace), append(d.Tasks, q.Task)
		row := queueRow{Queue: q, Lag: lag[q.Name]}
		switch {
		case q.Paused:
			row.Problem = "paused"
		case row.Lag >= lateAfter:
			row.Problem = "late"
		case q.Messages.DeadLetter > 0:
			row.Problem = "dead letters"
		}
		if strings.Contains(strings.ToLower(q.Name), name) && (d.Namespace == "" || q.Namespace == d.Namespace) && (d.Task == "" || q.Task == d.Task) &&
			(d.Only != "problems" || row.Problem != "") {
			rows = append(rows, row)
		}
	}
	d.Namespaces, d.Tasks = names(d.Namespaces), names(d.Tasks)
	return rows
}

// maxNames is how many namespaces or tasks a list offers.
const maxNames = 200

// names returns the different texts that are not empty, in order.
func names(all []string) []string {
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(text string) bool { return text == "" })
	return all[:min(len(all), maxNames)]
}

func (d *queuesData) sort(rows []queueRow) {
	slices.SortStableFunc(rows, func(a, b queueRow) int {
		byName := cmp.Compare(a.Name, b.Name)
		switch d.Sort {
		case "pending":
			return cmp.Or(cmp.Compare(b.Messages.Pending, a.Messages.Pending), byName)
		case "dead":
			return cmp.Or(cmp.Compare(b.Messages.DeadLetter, a.Messages.DeadLetter), byName)
		case "lag":
			return cmp.Or(cmp.Compare(b.Lag, a.Lag), byName)
		case "partitions":
			return cmp.Or(cmp.Compare(b.Partitions, a.Partitions), byName)
		case "stored":
			return cmp.Or(cmp.Compare(b.Messages.Total, a.Messages.Total), byName)
		}
		return byName
	})
}

// cut keeps the rows of one page.
func (d *queuesData) cut(r *page.Request, rows []queueRow) {
	number, err := strconv.Atoi(r.Query.Get("page"))
	if err != nil || number < 1 || (number-1)*queuesPage >= len(rows) {
		number = 1
	}
	d.Found, d.First = len(rows), (number-1)*queuesPage
	d.Last = min(len(rows), d.First+queuesPage)
	var most int64 = 1
	for i := range rows {
		most = max(most, rows[i].Messages.Pending)
	}
	d.Rows = rows[d.First:d.Last]
	for i := range d.Rows {
		n := d.Rows[i].Messages.Pending
		d.Rows[i].Fill = int((n*10 + most - 1) / most)
	}
	if number > 1 {
		d.Previous = with(r, "queues", "page", strconv.Itoa(number-1))
	}
	if d.Last < len(rows) {
		d.Next = with(r, "queues", "page", strconv.Itoa(number+1))
	}
	d.Sorts = map[string]template.URL{}
	for _, key := range []string{"name", "pending", "dead", "lag", "partitions", "stored"} {
		d.Sorts[key] = with(r, "queues", "sort", key)
	}
}

// with returns the URL of the shown page with another value in its query.
func with(r *page.Request, path, name, value string) template.URL {
	query := r.Query
	kept := make([]string, 0, 2*len(query))
	encoded := ""
	for key, values := range query {
		if key == "c" { // several values
			for _, v := range values {
				encoded += "&c=" + template.URLQueryEscaper(v)
			}
		} else if key != name && key != "page" && len(values) > 0 {
			kept = append(kept, key, values[0])
		}
	}
	return page.Link(path, append(kept, name, value)...) + template.URL(encoded) //nolint:gosec // it is escaped
}

// draw adds the line of the last hour to each row.
func (d *queuesData) draw(ops *source.QueueOps) {
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
			newest[row], d.Rows[row].P99 = b.Bucket, b.P99Ms
		}
	}
	for i := range d.Rows {
		d.Rows[i].Line = chart.Spark("deliveries of "+d.Rows[i].Name+" in the last hour", values[i])
	}
}
