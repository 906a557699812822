package pages

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// backlogData has the charts of the backlog of a queue or a group.
type backlogData struct {
	Zoom zoom
	// Depth and Age are the charts. They are nil if the backlog was never counted.
	Depth, Age any
	// CountedAt is when the last backlog of the charts was counted.
	CountedAt time.Time
}

// backlogNow is the backlog that the other figures of the page show.
type backlogNow struct{ messages, seconds int64 }

// units are the units of an age, the largest first. An age of at least least seconds is shown in the unit.
var units = []struct {
	name           string
	seconds, least float64
}{{" d", 86400, 4 * 86400}, {" h", 3600, 4 * 3600}, {" min", 60, 600}, {" s", 1, 0}}

// drawBacklog draws the backlogs of the buckets. Without a chosen time, the last point is the backlog of now. It skips buckets
// from before the first count.
func drawBacklog(r *page.Request, z zoom, ops *api.QueueOps, now backlogNow) (d backlogData) {
	d.Zoom = z
	span := z.span(r.Now, time.Duration(max(1, ops.BucketMinutes))*time.Minute)
	depth, age := chart.Line{Name: "unfinished messages", Class: "a"}, chart.Line{Name: "age of the oldest", Class: "b"}
	most := 0.0
	add := func(at time.Time, messages, seconds int64) {
		most = max(most, float64(seconds))
		depth.Points = append(depth.Points, chart.Point{At: at, Value: float64(messages)})
		age.Points = append(age.Points, chart.Point{At: at, Value: float64(seconds)})
	}
	for i := len(ops.Series) - 1; i >= 0; i-- { // the newest bucket is the first one
		b := &ops.Series[i]
		if b.Backlog == nil || b.BacklogCountedAt == nil || b.OldestSeconds == nil {
			continue
		}
		d.CountedAt = *b.BacklogCountedAt
		if z.Chosen || b.Bucket.Before(span.To) {
			add(b.Bucket.Time, *b.Backlog, *b.OldestSeconds)
		}
	}
	if d.CountedAt.IsZero() {
		return d
	}
	if !z.Chosen {
		add(span.To, now.messages, now.seconds)
	}
	unit := len(units) - 1
	for i := range units {
		if most >= units[i].least {
			unit = i
			break
		}
	}
	for i := range age.Points {
		age.Points[i].Value /= units[unit].seconds
	}
	d.Depth = chart.Lines("Unfinished messages", "", span, []chart.Line{depth})
	d.Age = chart.Lines("Age of the oldest unfinished message", units[unit].name, span, []chart.Line{age})
	return d
}

// readOps reads the buckets of a queue, or of a group in the queue, in a chosen time.
func readOps(r *page.Request, z *zoom, queueName, group string) (*api.QueueOps, error) {
	from, to := z.instants()
	return source.Read[api.QueueOps](r.Ctx, r.Client, r.Caller,
		string(page.Link("/api/v1/analytics/queue-ops", "queue", queueName, "consumerGroup", group, "from", from, "to", to, "live", "false")))
}
