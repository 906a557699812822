package apitest

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/engine/schedule"
)

// Schedules is the state of schedulesFake.
type Schedules struct {
	// Old is the schedule that exists. With nil there is none.
	Old *schedule.Schedule
	// After is the cursor of the next page.
	After string
	// Set is the definition of the last call of Set, and DryRun its flag.
	Set    schedule.Definition
	DryRun bool
	Filter schedule.Filter
	// Reason is the reason of the last pause.
	Reason string
	// Texts are the texts of the calls. Calls counts the calls.
	Texts []string
	Calls int
}

// anySchedule returns a schedule that exists.
func anySchedule() *schedule.Schedule {
	d := schedule.Definition{Name: "s", Queue: "q", Payload: []byte("1")}
	d.Spec.Every = time.Hour
	return &schedule.Schedule{Definition: d}
}

// schedulesFake replaces pkg/engine/schedule.
type schedulesFake struct{ *Schedules }

// call records a call, and runs the checks for the schedule that exists.
func (f schedulesFake) call(checks []schedule.Check, texts ...string) error {
	f.Calls++
	f.Texts = append(f.Texts, texts...)
	if f.Old == nil {
		return schedule.ErrNoSchedule
	}
	for _, check := range checks {
		if err := check(f.Old.Queue); err != nil {
			return err
		}
	}
	return nil
}

func (f schedulesFake) Set(_ context.Context, d *schedule.Definition, dryRun bool, checks ...schedule.Check) (*schedule.Schedule, bool, error) {
	err := f.call(checks, d.Name, d.Queue, d.Partition, d.OverlapGroup, d.Spec.Cron, d.Spec.Zone, d.Missed, string(d.Payload))
	if err != nil && f.Old != nil {
		return nil, false, err
	}
	f.Schedules.Set, f.DryRun = *d, dryRun
	now := time.Date(2026, 5, 16, 8, 41, 27, 0, time.UTC)
	return &schedule.Schedule{Definition: *d, CreatedAt: now, ChangedAt: now, ReadAt: now}, f.Old == nil, nil
}

func (f schedulesFake) Get(_ context.Context, name string) (*schedule.Schedule, error) {
	return f.Old, f.call(nil, name)
}

func (f schedulesFake) List(_ context.Context, filter schedule.Filter) (page []schedule.Schedule, next string, err error) {
	_ = f.call(nil, filter.Queue, filter.Part, filter.After)
	f.Filter = filter
	if f.Old != nil {
		page = append(page, *f.Old)
	}
	return page, f.After, nil
}

func (f schedulesFake) Delete(_ context.Context, name string, checks ...schedule.Check) error {
	return f.call(checks, name)
}

func (f schedulesFake) SetPaused(_ context.Context, name string, _ bool, reason string, checks ...schedule.Check) (changed bool, err error) {
	f.Reason = reason
	return true, f.call(checks, name, reason)
}

func (f schedulesFake) RunNow(_ context.Context, name string, checks ...schedule.Check) (transactionID string, err error) {
	return name + "@now/run", f.call(checks, name)
}
