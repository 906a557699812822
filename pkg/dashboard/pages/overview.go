package pages

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// shownProblems is how many problems the overview lists. With show=more it lists moreProblems.
	shownProblems, moreProblems = 25, 100
	// busiest is how many queues the overview lists, those with the most deliveries first.
	busiest = 8
)

// overviewData is the data of the overview.
type overviewData struct {
	Problems []Problem
	// Left is the number of found problems that are not listed. All is the link to them. Examined is the number of
	// examined groups and paused queues. Next and First are links to the next and the first page.
	Left, Examined   int
	All, Next, First template.URL
	Activity         *api.WorkerMetrics
	Total            *api.Totals
	// Dispatcher is nil for a caller who may not see it.
	Dispatcher *api.Dispatcher
	Chart      any
	Busiest    []busyQueue
	Empty      bool
}

type busyQueue struct {
	Name                 string
	Pushes, Pops, Failed int64
	P50, P95, P99        float64
}

// IsQueue reports whether the row is one queue, which has a page. The other kind of row is the sum of further queues.
func (q *busyQueue) IsQueue() bool { return q.Name != api.OtherQueues }

func overview(r *page.Request) (*page.Content, error) {
	data, err := &overviewData{}, error(nil)
	if data.Activity, err = source.Read[api.WorkerMetrics](r.Ctx, r.Client, r.Caller, "/api/v1/analytics/worker-metrics?live=false"); err != nil {
		return nil, err
	}
	if data.Total, err = source.Read[api.Totals](r.Ctx, r.Client, r.Caller, "/api/v1/totals"); err != nil {
		return nil, err
	}
	data.Dispatcher, err = source.Read[api.Dispatcher](r.Ctx, r.Client, r.Caller, "/api/v1/status/dispatcher")
	if err != nil && !source.IsStatus(err, http.StatusForbidden) { // a token with grants may not see it
		return nil, err
	}
	if err := data.list(r); err != nil {
		return nil, err
	}
	if err := data.readProblems(r); err != nil {
		return nil, err
	}
	data.Chart = rates(data.Activity, r.Now)
	return &page.Content{Title: "Overview", Data: data, Commands: []page.Command{
		r.Get("List the problems", "/api/v1/problems"),
		r.Get("Counts of all queues", "/api/v1/totals", "status"),
		r.Get("Groups with their lag", "/api/v1/groups?sort=oldest", "group", "list"),
	}}, nil
}

// list sets Busiest. If there are fewer than busiest active queues, it adds idle queues.
func (d *overviewData) list(r *page.Request) error {
	active := slices.DeleteFunc(slices.Clone(d.Activity.Queues), func(q api.QueueDelays) bool { return q.PushCount+q.PopCount+q.AckFailed == 0 })
	for _, q := range active[:min(busiest, len(active))] {
		d.Busiest = append(d.Busiest, busyQueue{q.QueueName, q.PushCount, q.PopCount, q.AckFailed, q.P50Ms, q.P95Ms, q.P99Ms})
	}
	if len(d.Busiest) == busiest {
		return nil
	}
	found, err := source.Read[api.QueuePage](r.Ctx, r.Client, r.Caller, "/api/v1/queues?limit="+strconv.Itoa(busiest))
	if err != nil {
		return err
	}
	d.Empty = len(found.Queues) == 0 && found.Pagination.Next == nil
	for _, q := range found.Queues {
		listed := slices.ContainsFunc(d.Busiest, func(b busyQueue) bool { return b.Name == q.Name })
		if !listed && len(d.Busiest) < busiest {
			d.Busiest = append(d.Busiest, busyQueue{Name: q.Name})
		}
	}
	return nil
}

// readProblems reads the problems.
func (d *overviewData) readProblems(r *page.Request) error {
	after, limit := r.Query.Get("after"), shownProblems
	if r.Query.Get("show") == "more" {
		limit = moreProblems
	}
	found, err := source.Read[api.Problems](r.Ctx, r.Client, r.Caller, string(page.Link("/api/v1/problems", "limit", strconv.Itoa(limit), "cursor", after)))
	if err != nil {
		return err
	}
	d.Problems, d.Examined = listedProblems(found.Problems), int(found.Examined)
	if after == "" {
		switches, err := may[api.Maintenance](r, "/api/v1/system/maintenance")
		if err != nil {
			return err
		}
		d.Problems = slices.Concat(maintenanceProblems(switches), serverProblems(d.Dispatcher), d.Problems)
	} else {
		d.First = page.Link("")
	}
	if d.Left = int(found.Found) - len(found.Problems); d.Left > 0 && limit == shownProblems {
		d.All = page.Link("", "show", "more", "after", after)
	}
	if next := found.Pagination.Next; next != nil {
		d.Next = page.Link("", "after", *next)
	}
	return nil
}

// rates returns the chart of the rates of all instances in the last hour.
func rates(a *api.WorkerMetrics, now time.Time) any {
	last := now.UTC().Truncate(time.Minute)
	span := chart.Span{From: last.Add(-time.Hour), To: last, Step: time.Minute, Open: true}
	pushed, delivered, acked := make([]chart.Point, 0, 61), make([]chart.Point, 0, 61), make([]chart.Point, 0, 61)
	for i := range slices.Backward(a.TimeSeries) {
		p := &a.TimeSeries[i]
		pushed = append(pushed, chart.Point{At: p.Timestamp.Time, Value: p.PushPerSecond})
		delivered = append(delivered, chart.Point{At: p.Timestamp.Time, Value: p.PopPerSecond})
		acked = append(acked, chart.Point{At: p.Timestamp.Time, Value: p.AckPerSecond})
	}
	return chart.Lines("Messages per second in the last hour", "/s", span, []chart.Line{
		{Name: "pushed", Class: "a", Points: pushed}, {Name: "delivered", Class: "b", Points: delivered}, {Name: "acknowledged", Class: "c", Points: acked},
	})
}

// P50 returns the median latency of the queues, weighted by their deliveries.
func (d *overviewData) P50() float64 {
	type weighted struct {
		ms float64
		n  int64
	}
	var all []weighted
	var total int64
	for _, q := range d.Activity.Queues {
		all, total = append(all, weighted{q.P50Ms, q.PopCount}), total+q.PopCount
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.ms, b.ms) })
	var before int64
	for _, one := range all {
		if before += one.n; before*2 >= total {
			return one.ms
		}
	}
	return 0
}

// P99 returns the largest p99 of a queue.
func (d *overviewData) P99() float64 {
	worst := 0.0
	for _, q := range d.Activity.Queues {
		worst = max(worst, q.P99Ms)
	}
	return worst
}
