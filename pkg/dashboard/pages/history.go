package pages

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

type historyData struct {
	Queue, Group, Namespace, Task, Span string
	Choices                             []page.Choice
	*api.WorkerMetrics
	Swept *api.Retention
	// From and To are the chosen time range. They are empty if the URL chooses none.
	From, To string
	Zoom     zoom
	// Rates, Latency, Failures and Sweeps are the charts.
	Rates, Latency, Failures, Sweeps any
	// Queues are the queues with the most deliveries.
	Queues []busyQueue
	Empty  bool
}

// history shows the history of the counts in a time range.
func history(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &historyData{
		Queue: q.Get("q"), Group: q.Get("g"), Namespace: q.Get("namespace"), Task: q.Get("task"), Span: q.Get("span"),
		Zoom:    readZoom(r, "history"),
		Choices: page.Choices("1h", "last hour", "6h", "last 6 hours", "1d", "last day", "7d", "last 7 days"),
	}
	from, to := d.Zoom.instants()
	d.From, d.To = from, to
	if d.Zoom.Chosen {
		d.Span, d.Choices = "", slices.Concat(page.Choices("", "chosen time"), d.Choices)
	} else {
		if spans[d.Span] == 0 {
			d.Span = "1h"
		}
		from = r.Now.Add(time.Minute - spans[d.Span]).Truncate(time.Minute).UTC().Format(time.RFC3339)
	}
	path := func(name string) string {
		return string(page.Link("/api/v1/analytics/"+name, "from", from, "to", to, "queue", d.Queue, "consumerGroup", d.Group, "namespace", d.Namespace, "task", d.Task))
	}
	var err error
	if d.WorkerMetrics, err = source.Read[api.WorkerMetrics](r.Ctx, r.Client, r.Caller, path("worker-metrics")+"&live=false"); err != nil {
		return nil, err
	}
	latencies, err := source.Read[[]api.QueueLag](r.Ctx, r.Client, r.Caller, path("queue-lag"))
	if err != nil {
		return nil, err
	}
	d.Swept, err = source.Read[api.Retention](r.Ctx, r.Client, r.Caller, path("retention"))
	if err != nil && !source.IsStatus(err, http.StatusBadRequest) { // this route refuses a filter by group
		return nil, err
	}
	step := time.Duration(max(1, d.BucketMinutes)) * time.Minute
	d.draw(d.Zoom.span(r.Now, step), *latencies)
	d.Empty = len(d.TimeSeries) == 0 && len(*latencies) == 0
	cli := []string{"history", "--from", cmp.Or(d.Span, from)}
	if to != "" {
		cli = append(cli, "--to", to)
	}
	cli = page.Flags(cli, "--queue", d.Queue, "--group", d.Group, "--namespace", d.Namespace, "--task", d.Task)
	return &page.Content{Title: "History", Data: d, Commands: []page.Command{r.Get("Show the counts of each queue", path("queue-ops"), cli...)}}, nil
}

// draw creates the charts of a span.
func (d *historyData) draw(span chart.Span, latencies []api.QueueLag) {
	line := func(name, class string) *chart.Line { return &chart.Line{Name: name, Class: class} }
	pushed, delivered, acked := line("pushed", "a"), line("delivered", "b"), line("acknowledged", "c")
	failed, retried := line("failed", "b"), line("retried", "c")
	dead, faults := line("dead letters", "d"), line("errors of the database", "a")
	for i := range slices.Backward(d.TimeSeries) {
		p := &d.TimeSeries[i]
		add := func(l *chart.Line, v float64) {
			l.Points = append(l.Points, chart.Point{At: p.Timestamp.Time, Value: v})
		}
		add(pushed, p.PushPerSecond)
		add(delivered, p.PopPerSecond)
		add(acked, p.AckPerSecond)
		add(failed, float64(p.AckFailed))
		add(retried, float64(p.AckRetried))
		add(dead, float64(p.DLQCount))
		add(faults, float64(p.DBErrors))
	}
	d.Rates = chart.Lines("Messages per second", chart.PerSecond, span, []chart.Line{*pushed, *delivered, *acked})
	d.Failures = chart.Lines("Failures", "", span, []chart.Line{*failed, *retried, *dead, *faults})
	d.drawLatency(span, latencies)
	if d.Swept != nil {
		old, done, unread := line("by age", "a"), line("consumed", "c"), line("not consumed in time", "b")
		for i := range slices.Backward(d.Swept.Series) {
			p := &d.Swept.Series[i]
			old.Points = append(old.Points, chart.Point{At: p.Bucket.Time, Value: float64(p.RetentionMsgs)})
			done.Points = append(done.Points, chart.Point{At: p.Bucket.Time, Value: float64(p.CompletedRetentionMsgs)})
			unread.Points = append(unread.Points, chart.Point{At: p.Bucket.Time, Value: float64(p.EvictionMsgs)})
		}
		d.Sweeps = chart.Lines("Messages that sweeps deleted", "", span, []chart.Line{*old, *done, *unread})
	}
}

// drawLatency draws the latency of the slowest queue in each interval, and sets the busiest queues.
func (d *historyData) drawLatency(span chart.Span, latencies []api.QueueLag) {
	worst, queues := map[time.Time][2]float64{}, map[string]*busyQueue{}
	for i := range latencies {
		l := &latencies[i]
		at := worst[l.BucketTime.Time]
		worst[l.BucketTime.Time] = [2]float64{max(at[0], l.P50Ms), max(at[1], l.P99Ms)}
		one := queues[l.QueueName]
		if one == nil {
			one = &busyQueue{Name: l.QueueName}
			queues[l.QueueName] = one
		}
		one.Pops += l.PopCount
		one.P50, one.P95, one.P99 = max(one.P50, l.P50Ms), max(one.P95, l.P95Ms), max(one.P99, l.P99Ms)
	}
	middle, slow := chart.Line{Name: "p50", Class: "c"}, chart.Line{Name: "p99", Class: "b"}
	for at, ms := range worst {
		middle.Points = append(middle.Points, chart.Point{At: at, Value: ms[0]})
		slow.Points = append(slow.Points, chart.Point{At: at, Value: ms[1]})
	}
	for _, l := range []*chart.Line{&middle, &slow} {
		slices.SortFunc(l.Points, func(a, b chart.Point) int { return a.At.Compare(b.At) })
	}
	d.Latency = chart.Lines("Milliseconds from the commit to the delivery, of the slowest queue", chart.Milliseconds, span, []chart.Line{middle, slow})
	for _, one := range queues {
		d.Queues = append(d.Queues, *one)
	}
	slices.SortFunc(d.Queues, func(a, b busyQueue) int { return cmp.Or(cmp.Compare(b.Pops, a.Pops), cmp.Compare(a.Name, b.Name)) })
	d.Queues = d.Queues[:min(len(d.Queues), busiest*2)]
}
