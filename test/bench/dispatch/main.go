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
)

// settings are how much is measured.
type settings struct {
	only        string
	samples     int
	idle        time.Duration
	herdRounds  int
	manyFor     time.Duration
	timerRounds int
	mixFor      time.Duration
}

// measure is one line of work; its figures go to the report.
type measure struct {
	name string
	run  func(ctx context.Context, r *rig, out *report) error
}

// measures in the order they run. A new one gets a file and a line here.
var measures = []measure{
	{"wake", measureWake},
	{"instances", measureInstances},
	{"idle", measureIdle},
	{"herd", measureHerd},
	{"many", measureMany},
	{"timers", measureTimers},
	{"mix", measureMix},
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == bareCommand {
		if err := serveBare(); err != nil {
			printf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	flag.StringVar(&s.only, "only", "", "measures to run, separated by commas: "+strings.Join(names(), ",")+" (default: all)")
	flag.IntVar(&s.samples, "samples", 300, "messages of wake and of instances")
	flag.DurationVar(&s.idle, "idle", time.Minute, "length of each half of idle")
	flag.IntVar(&s.herdRounds, "herd-rounds", 20, "messages of herd")
	flag.DurationVar(&s.manyFor, "many", 30*time.Second, "length of many")
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

// run prints the table. broken says that a promise was broken or a measure
// failed; a target that was only missed is neither.
func run(ctx context.Context, s settings) (broken bool, err error) {
	chosen, err := choose(s.only)
	if err != nil {
		return false, err
	}
	r, err := newRig(ctx, s)
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

// printf writes to the terminal; a terminal that is gone is no concern of ours.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// loadAverage is what the machine does beside us, or "unknown".
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// pause waits for d, or returns the error of ctx when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
