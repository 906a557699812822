package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// settings are the flags.
type settings struct {
	connections, pushes, messages, partitions, skips int
	quiet                                            time.Duration
}

// measure adds its figures to the report.
type measure struct {
	name string
	run  func(ctx context.Context, s *suite, out *report) error
}

// measures has all measures in the order they run.
var measures = []measure{
	{"trickle", measureTrickle}, {"inflight", measureInflight}, {"bigpop", measureBigPop}, {"answers", measureAnswers}, {"poison", measurePoison}, {"million", measureMillion},
	{"skips", measureSkips},
}

func main() {
	if code, ok := rig.RunChild(nil); ok {
		os.Exit(code)
	}
	var s settings
	flag.IntVar(&s.connections, "connections", 2000, "connections of each kind of trickle")
	flag.IntVar(&s.pushes, "pushes", 500, "concurrent pushes of inflight")
	flag.IntVar(&s.messages, "messages", 1000, "messages of bigpop")
	flag.IntVar(&s.partitions, "partitions", 1_000_000, "partitions of million")
	flag.IntVar(&s.skips, "skips", 1_000_000, "skipped messages of skips")
	flag.DurationVar(&s.quiet, "quiet", 15*time.Second, "length of a phase in which pushes are timed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, s, flag.Args())
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "edge: %v\n", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// run runs the named measures, or all of them.
func run(ctx context.Context, s settings, names []string) (ok bool, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(measures, func(m measure) bool { return m.name == name }) {
			return false, fmt.Errorf("there is no measure %q: there are trickle, inflight, bigpop, answers, poison, million and skips", name)
		}
	}
	r, err := newSuite(ctx, s)
	if err != nil {
		return false, err
	}
	out := &report{}
	for _, m := range measures {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		out.measure = m.name
		if failed := m.run(ctx, r, out); failed != nil {
			out.check("the measure", "failed: "+strings.ReplaceAll(failed.Error(), "\n", "; "), "no error", false)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return !out.bad, errors.Join(ctx.Err(), r.cluster.Close())
}

// report prints figures. It belongs to one goroutine.
type report struct {
	measure string
	bad     bool
}

// check prints a figure with its limit.
func (r *report) check(what, figure, limit string, ok bool) {
	verdict := "ok"
	if !ok {
		verdict, r.bad = "NOT OK", true
	}
	_, _ = fmt.Fprintf(os.Stdout, "%-9s %-58s %16s  limit %-14s %s\n", r.measure, what, figure, limit, verdict)
}

// note prints a figure without a limit.
func (r *report) note(what, figure string) {
	_, _ = fmt.Fprintf(os.Stdout, "%-9s %-58s %16s\n", r.measure, what, figure)
}

// memory checks a figure in bytes.
func (r *report) memory(what string, bytes, limit int64) {
	r.check(what, mib(bytes), mib(limit), bytes <= limit)
}

// time checks a duration.
func (r *report) time(what string, d, limit time.Duration) {
	r.check(what, millis(d), millis(limit), d <= limit)
}

// ratio checks how much longer d is than quiet.
func (r *report) ratio(what string, d, quiet time.Duration, limit float64) {
	times := float64(d) / float64(max(quiet, 1))
	r.check(fmt.Sprintf("%s: %s against %s", what, millis(d), millis(quiet)), fmt.Sprintf("%.2f times", times), fmt.Sprintf("%.2f times", limit), times <= limit)
}

// none checks that nothing happened.
func (r *report) none(what string, n int) { r.check(what, fmt.Sprint(n), "0", n == 0) }

// pushes checks that no push failed.
func (r *report) pushes(what string, t timing) {
	r.none(what+": pushes that failed", t.failed)
	if t.example != nil {
		r.note("such as", t.example.Error())
	}
}

func mib(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
