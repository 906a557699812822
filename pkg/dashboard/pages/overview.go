package pages

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// maxProblems is how many problems the overview lists.
	maxProblems = 25
	// lateAfter is the age in seconds of an unconsumed message that is a problem, and veryLate that of one
	// that is bad.
	lateAfter, veryLate = 60, 3600
	// busiest is how many queues the overview lists by their deliveries.
	busiest = 8
)

// overviewData is what the overview shows.
type overviewData struct {
	Problems []Problem
	// More is how many problems are not listed.
	More     int
	Totals   *source.Overview
	Activity *source.Activity
	// Dispatcher is nil for a caller who may not see it.
	Dispatcher *source.Dispatcher
	Chart      any
	Busiest    []busyQueue
	Empty      bool
}

type busyQueue struct {
	Name          string
	Pops          int64
	P50, P95, P99 float64
}

func overview(r *page.Request) (*page.Content, error) {
	data := &overviewData{}
	queues, err := source.Read[source.Queues](r.Ctx, r.Client, r.Caller, "/api/v1/resources/queues")
	if err != nil {
		return nil, err
	}
	groups, err := source.Read[[]source.Group](r.Ctx, r.Client, r.Caller, "/api/v1/consumer-groups")
	if err != nil {
		return nil, err
	}
	if data.Totals, err = source.Read[source.Overview](r.Ctx, r.Client, r.Caller, "/api/v1/resources/overview"); err != nil {
		return nil, err
	}
	if data.Activity, err = source.Read[source.Activity](r.Ctx, r.Client, r.Caller, "/api/v1/analytics/worker-metrics"); err != nil {
		return nil, err
	}
	data.Dispatcher, err = source.Read[source.Dispatcher](r.Ctx, r.Client, r.Caller, "/api/v1/status/dispatcher")
	if err != nil && !source.IsStatus(err, http.StatusForbidden) { // a token with grants may not see it
		return nil, err
	}
	data.Empty = len(queues.Queues) == 0
	data.Problems = slices.Concat(serverProblems(data.Dispatcher), queueProblems(queues.Queues), groupProblems(*groups))
	slices.SortStableFunc(data.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(b.size, a.size))
	})
	data.More = max(0, len(data.Problems)-maxProblems)
	data.Problems = data.Problems[:len(data.Problems)-data.More]
	data.Chart = rates(data.Activity)
	for _, q := range data.Activity.Queues[:min(busiest, len(data.Activity.Queues))] {
		data.Busiest = append(data.Busiest, busyQueue{q.QueueName, q.PopCount, q.P50Ms, q.P95Ms, q.P99Ms})
	}
	return &page.Content{Title: "Overview", Data: data, Commands: []page.Command{
		r.Get("Counts of all queues", "/api/v1/resources/overview", "status"),
		r.Get("Groups with their lag", "/api/v1/consumer-groups", "group", "list"),
	}}, nil
}

// rates is the chart of what all instances did in the last hour.
func rates(a *source.Activity) any {
	now := time.Now().Truncate(time.Minute)
	span := chart.Span{From: now.Add(-time.Hour), To: now, Step: time.Minute, Open: true}
	pushed, delivered, acked := make([]chart.Point, 0, 61), make([]chart.Point, 0, 61), make([]chart.Point, 0, 61)
	for i := range slices.Backward(a.TimeSeries) {
		p := &a.TimeSeries[i]
		pushed = append(pushed, chart.Point{At: p.Timestamp, Value: p.PushPerSecond})
		delivered = append(delivered, chart.Point{At: p.Timestamp, Value: p.PopPerSecond})
		acked = append(acked, chart.Point{At: p.Timestamp, Value: p.AckPerSecond})
	}
	return chart.Lines("Messages per second in the last hour", "/s", span, []chart.Line{
		{Name: "pushed", Class: "a", Points: pushed}, {Name: "delivered", Class: "b", Points: delivered}, {Name: "acknowledged", Class: "c", Points: acked},
	})
}

// P50 returns the latency of the middle delivery, as far as the queues say.
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
