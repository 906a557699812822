package page

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
)

// Backlog has the charts of the backlog of a queue or a group.
type Backlog struct {
	// Depth and Age are the charts. They are nil if the backlog was never counted.
	Depth, Age any
	// CountedAt is when the last backlog of the charts was counted.
	CountedAt time.Time
}

// BacklogNow is the backlog that the other figures of the page show.
type BacklogNow struct{ Messages, Seconds int64 }

// units are the units of an age, the largest first. An age of at least least seconds is shown in the unit.
var units = []struct {
	name           string
	seconds, least float64
}{{" d", 86400, 4 * 86400}, {" h", 3600, 4 * 3600}, {" min", 60, 600}, {" s", 1, 0}}

// DrawBacklog draws the backlogs of the buckets. Without a chosen time, the last point is the backlog of now. It skips buckets
// from before the first count.
func DrawBacklog(series []api.QueueBucket, span chart.Span, chosen bool, now BacklogNow) (d Backlog) {
	depth, age := chart.Line{Name: "unfinished messages", Class: "a"}, chart.Line{Name: "age of the oldest", Class: "b"}
	most := 0.0
	add := func(at time.Time, messages, seconds int64) {
		most = max(most, float64(seconds))
		depth.Points = append(depth.Points, chart.Point{At: at, Value: float64(messages)})
		age.Points = append(age.Points, chart.Point{At: at, Value: float64(seconds)})
	}
	for i := len(series) - 1; i >= 0; i-- { // the newest bucket is the first one
		b := &series[i]
		if b.Backlog == nil || b.BacklogCountedAt == nil || b.OldestSeconds == nil {
			continue
		}
		d.CountedAt = *b.BacklogCountedAt
		if chosen || b.Bucket.Before(span.To) {
			add(b.Bucket.Time, *b.Backlog, *b.OldestSeconds)
		}
	}
	if d.CountedAt.IsZero() {
		return d
	}
	if !chosen {
		add(span.To, now.Messages, now.Seconds)
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
