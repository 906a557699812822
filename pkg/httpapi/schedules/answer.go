package schedules

import (
	"cmp"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/schedule"
	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// detailed describes a schedule with its next instants.
func detailed(s *schedule.Schedule) api.Schedule {
	one := listed(s)
	next, _ := s.Next(shownInstants) // without instants if Error is set
	one.Next = orEmpty(next)
	return one
}

// listed describes a schedule.
func listed(s *schedule.Schedule) api.Schedule {
	paused := s.Paused
	return api.Schedule{
		Name: s.Name,
		SetSchedule: api.SetSchedule{
			Queue: s.Queue, Partition: s.Partition, Cron: s.Spec.Cron, Every: durationText(s.Spec.Every), At: s.Spec.At, Zone: s.Spec.Zone,
			Payload: s.Payload, Headers: s.Headers.Map(), DelaySeconds: s.Delay.Seconds(), Starts: s.Spec.Starts, Ends: s.Spec.Ends,
			Jitter: durationText(s.Jitter), Missed: s.Missed, OverlapGroup: s.OverlapGroup, Paused: &paused,
		},
		Sentence: sentence(&s.Spec), PauseReason: wire.OrNull(s.PauseReason), NextAt: wire.OrNull(s.NextAt), LastAt: wire.OrNull(s.LastAt),
		LastTransactionID: wire.OrNull(s.LastTransactionID), Error: wire.OrNull(s.Error), ScheduledBy: wire.OrNull(s.ScheduledBy),
		CreatedAt: s.CreatedAt, ChangedAt: s.ChangedAt,
	}
}

// sentence describes the instants. An expression that the server cannot read is shown as it is.
func sentence(spec *when.Spec) string {
	rule, err := when.Parse(*spec)
	if err != nil {
		return strings.TrimSpace("cron " + spec.Cron + ", " + cmp.Or(spec.Zone, "UTC"))
	}
	return rule.Sentence()
}

// durationText writes a duration without units that are 0, or "" for 0.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// orEmpty returns a list whose JSON is never null.
func orEmpty(list []time.Time) []time.Time {
	if list == nil {
		return []time.Time{}
	}
	return list
}
