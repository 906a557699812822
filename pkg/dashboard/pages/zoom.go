package pages

import (
	"html/template"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// leastZoom and mostZoom bound the time range of charts. The history has one value per minute.
const leastZoom, mostZoom = 5 * time.Minute, 28 * 24 * time.Hour

// zoom is the time range of the charts of a page. The URL contains a chosen range, so that people can share it.
type zoom struct {
	// From and To are whole minutes.
	From, To time.Time
	// Chosen is true if the URL contains From and To. Otherwise To is now.
	Chosen bool
	// Base is the URL without a chosen range. The others are URLs with another range. An empty one is not shown.
	Base, Earlier, Later, In, Out template.URL
}

// readZoom returns the time range of a request. The query has a span that ends now, or from and to. If it has neither, the
// range is the last hour.
func readZoom(r *page.Request, path string) zoom {
	now, usual := r.Now.UTC().Truncate(time.Minute), spans[r.Query.Get("span")]
	z := zoom{From: now.Add(-max(usual, time.Hour)), To: now}
	from, err := time.Parse(time.RFC3339, r.Query.Get("from"))
	to, toErr := time.Parse(time.RFC3339, r.Query.Get("to"))
	if usual == 0 && err == nil && toErr == nil && from.Before(to) && from.Before(now) {
		z.From, z.To, z.Chosen = from.UTC().Truncate(time.Minute), to.UTC().Add(time.Minute-1).Truncate(time.Minute), true
		if z.To.After(now) {
			z.To = now
		}
		if z.To.Sub(z.From) < leastZoom {
			z.From = z.To.Add(-leastZoom)
		}
	}
	query := page.Request{Query: map[string][]string{}}
	for name, values := range r.Query {
		if name != "from" && name != "to" && name != "span" {
			query.Query[name] = values
		}
	}
	z.Base = page.With(&query, path, "from", "")
	at := func(from, to time.Time) template.URL {
		if to.After(now) {
			from, to = from.Add(now.Sub(to)), now
		}
		query.Query.Set("to", to.Format(time.RFC3339))
		return page.With(&query, path, "from", from.Format(time.RFC3339))
	}
	length := z.To.Sub(z.From)
	quarter := (length / 4).Truncate(time.Minute)
	z.Earlier = at(z.From.Add(-2*quarter), z.To.Add(-2*quarter))
	if z.To.Before(now) {
		z.Later = at(z.From.Add(2*quarter), z.To.Add(2*quarter))
	}
	if length-2*quarter >= leastZoom {
		z.In = at(z.From.Add(quarter), z.To.Add(-quarter))
	}
	if 2*length <= mostZoom {
		z.Out = at(z.From.Add(-length/2), z.To.Add(length/2))
	}
	return z
}

// span returns the Span of a chart with a point for each step. A point stands for the time until the next one.
func (z *zoom) span(now time.Time, step time.Duration) chart.Span {
	first, last := z.From.Truncate(step), z.To.Add(-1).Truncate(step)
	if !z.Chosen {
		last = now.UTC().Truncate(step)
		first = last.Add(z.From.Sub(z.To)).Truncate(step)
	}
	return chart.Span{From: first, To: last, Step: step, Open: last.Add(step).After(now)}
}

// ops reads the buckets of a queue, or of a group in the queue. It also returns the Span of their charts.
func (z *zoom) ops(r *page.Request, queueName, group string) (*api.QueueOps, chart.Span, error) {
	from, to := z.instants()
	path := page.Link("/api/v1/analytics/queue-ops", "queue", queueName, "consumerGroup", group, "from", from, "to", to, "live", "false")
	ops, err := source.Read[api.QueueOps](r.Ctx, r.Client, r.Caller, string(path))
	if err != nil {
		return nil, chart.Span{}, err
	}
	return ops, z.span(r.Now, time.Duration(max(1, ops.BucketMinutes))*time.Minute), nil
}

// instants returns both ends of the range in the format of the API. They are empty if the range is not chosen.
func (z *zoom) instants() (from, to string) {
	if !z.Chosen {
		return "", ""
	}
	return z.From.Format(time.RFC3339), z.To.Format(time.RFC3339)
}
