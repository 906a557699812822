package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// settings are the flags: how much is measured.
type settings struct {
	only        string
	samples     int
	idleFor     time.Duration
	herdRounds  int
	manyFor     time.Duration
	groupsFor   time.Duration
	timerRounds int
	mixFor      time.Duration
}

// measure adds its figures to the report.
type measure struct {
	name string
	run  func(ctx context.Context, r *suite, out *report) error
}

// measures has all measures in the order they run.
var measures = []measure{
	{"wake", measureWake},
	{"instances", measureInstances},
	{"idle", measureIdle},
	{"herd", measureHerd},
	{"many", measureMany},
	{"groups", measureGroups},
	{"timers", measureTimers},
	{"mix", measureMix},
}

func main() {
	if code, ok := rig.RunChild(map[string]rig.Child{bareChild: serveBare}); ok {
		os.Exit(code)
	}
	var s settings
	flag.StringVar(&s.only, "only", "", "measures to run, separated by commas: "+strings.Join(names(), ",")+" (default: all)")
	flag.IntVar(&s.samples, "samples", 300, "messages of wake and of instances")
	flag.DurationVar(&s.idleFor, "idle", time.Minute, "length of each half of idle")
	flag.IntVar(&s.herdRounds, "herd-rounds", 20, "messages of herd")
	flag.DurationVar(&s.manyFor, "many", 30*time.Second, "length of many")
	flag.DurationVar(&s.groupsFor, "groups", 20*time.Second, "length of groups")
	flag.IntVar(&s.timerRounds, "timer-rounds", 5, "rounds of timers, ten instants of each kind in a round")
	flag.DurationVar(&s.mixFor, "mix", time.Minute, "length of mix")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	broken, err := run(ctx, s)
	stop()
	if err != nil {
		printf(os.Stderr, "bench: %v\n", err)
	}
	if broken || err != nil {
		os.Exit(1)
	}
}

// run runs the measures and prints the table. broken says that the server broke a promise or that
// a measure failed. A missed target is neither.
func run(ctx context.Context, s settings) (broken bool, err error) {
	chosen, err := choose(s.only)
	if err != nil {
		return false, err
	}
	r, err := newSuite(ctx, s)
	if err != nil {
		return false, err
	}
	out := newReport()
	if err := r.describeMachine(ctx, os.Stdout); err != nil {
		return false, errors.Join(err, r.close())
	}
	printf(os.Stdout, "load at the start: %s\n", loadAverage())
	for _, m := range chosen {
		out.begin(m.name)
		printf(os.Stderr, "%s ...\n", m.name)
		if failed := m.run(ctx, r, out); failed != nil {
			out.failed(failed)
		}
		if err = ctx.Err(); err != nil {
			break
		}
	}
	printf(os.Stdout, "load at the end: %s\n\n", loadAverage())
	return out.broken, errors.Join(err, out.write(os.Stdout), r.close())
}

func names() []string {
	all := make([]string, len(measures))
	for i, m := range measures {
		all[i] = m.name
	}
	return all
}

// choose returns the measures of a list of names; an empty one means all.
func choose(only string) ([]measure, error) {
	if only == "" {
		return measures, nil
	}
	wanted := strings.Split(only, ",")
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("there is no measure %q: --only takes %s", name, strings.Join(names(), ","))
		}
	}
	var chosen []measure
	for _, m := range measures {
		if slices.Contains(wanted, m.name) {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// printf writes to the terminal and ignores errors.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// loadAverage returns the load of the machine, or "unknown".
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
