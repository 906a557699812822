package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// settings are the values of the flags. They set how much is measured.
type settings struct {
	samples     int
	idleFor     time.Duration
	herdRounds  int
	manyFor     time.Duration
	groupsFor   time.Duration
	timerRounds int
	mixFor      time.Duration

	scheduleRounds int
	limitRounds    int
}

// measures has all measures in the order in which they run.
var measures = []rig.Measure[*suite]{
	{Name: "wake", Run: measureWake},
	{Name: "instances", Run: measureInstances},
	{Name: "idle", Run: measureIdle},
	{Name: "herd", Run: measureHerd},
	{Name: "many", Run: measureMany},
	{Name: "groups", Run: measureGroups},
	{Name: "timers", Run: measureTimers},
	{Name: "schedules", Run: measureSchedules},
	{Name: "limits", Run: measureLimits},
	{Name: "refills", Run: measureRefills},
	{Name: "limited", Run: measureLimited},
	{Name: "mix", Run: measureMix},
}

func main() {
	var s settings
	only := flag.String("only", "", "measures to run, separated by commas (default: all)")
	flag.IntVar(&s.samples, "samples", 300, "messages in the measures wake and instances")
	flag.DurationVar(&s.idleFor, "idle", time.Minute, "duration of each half of the measure idle, and of the measure limited, and of the idle part of the measure schedules")
	flag.IntVar(&s.herdRounds, "herd-rounds", 20, "messages in the measure herd")
	flag.DurationVar(&s.manyFor, "many", 30*time.Second, "duration of the measure many")
	flag.DurationVar(&s.groupsFor, "groups", 20*time.Second, "duration of the measure groups")
	flag.IntVar(&s.timerRounds, "timer-rounds", 5, "rounds of the measure timers, with ten due times of each kind in a round")
	flag.IntVar(&s.scheduleRounds, "schedule-rounds", 20, "rounds of the measure schedules, with 1,000 schedules due at the same instant in a round")
	flag.IntVar(&s.limitRounds, "limit-rounds", 10, "rounds of the measure limits, with a turn of 2 s for each group in a round")
	flag.DurationVar(&s.mixFor, "mix", time.Minute, "duration of the measure mix")
	os.Exit(rig.Main(map[string]rig.Child{bareChild: serveBare}, func(ctx context.Context, out *rig.Report) error {
		return run(ctx, s, strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }), out)
	}))
}

func run(ctx context.Context, s settings, only []string, out *rig.Report) error {
	chosen, err := rig.Choose(measures, only)
	if err != nil {
		return err
	}
	r, err := newSuite(ctx, s)
	if err != nil {
		return err
	}
	if err := r.describeMachine(ctx, out); err != nil {
		return errors.Join(err, r.close())
	}
	out.Printf("load at the start: %s\n", loadAverage())
	err = rig.Run(ctx, r, chosen, out)
	out.Printf("load at the end: %s\n", loadAverage())
	return errors.Join(err, r.close())
}

// loadAverage returns the load of the machine, or "unknown".
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
