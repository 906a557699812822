package rig

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

// Report prints the figures of a command, one figure per line. Only one goroutine may use it.
type Report struct {
	out     io.Writer
	measure string
	remarks []string
	// broken means that a figure was beyond its limit, or that a measure failed.
	broken bool
}

// Measure has a function that adds figures to a report. S is the type of the value that all measures of a command share.
type Measure[S any] struct {
	Name string
	Run  func(ctx context.Context, suite S, out *Report) error
}

// Main is the main function of a benchmark command. The command defines its flags before. If this process is a child, Main
// runs the child and returns its exit code. Otherwise Main runs run. It returns 1 if run fails or if a figure is beyond its
// limit. An interrupt ends the context of run.
func Main(children map[string]Child, run func(ctx context.Context, out *Report) error) int {
	if code, ok := RunChild(children); ok {
		return code
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := &Report{out: os.Stdout}
	err := run(ctx, out)
	for _, remark := range out.remarks {
		out.Printf("\n%s\n", remark)
	}
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	}
	if out.broken || err != nil {
		return 1
	}
	return 0
}

// Choose returns the measures with these names, in the order in which they run. Without names it returns all measures. An
// unknown name is an error.
func Choose[S any](measures []Measure[S], names []string) (chosen []Measure[S], err error) {
	var known []string
	for _, m := range measures {
		known = append(known, m.Name)
		if len(names) == 0 || slices.Contains(names, m.Name) {
			chosen = append(chosen, m)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no measure %q: the measures are %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// Run runs measures. If a measure fails, the report is broken, and Run continues with the next measure. Run returns an
// error when ctx ends.
func Run[S any](ctx context.Context, suite S, measures []Measure[S], out *Report) error {
	for _, m := range measures {
		out.measure = m.Name
		if err := m.Run(ctx, suite, out); err != nil {
			out.Limit("the measure", "failed: "+strings.ReplaceAll(err.Error(), "\n", "; "), "no error", false)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Printf prints a line without a figure. It ignores errors of the output.
func (r *Report) Printf(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }

func (r *Report) add(what, value, target, verdict string) {
	r.Printf("%-9s %-62s %20s  %-18s %s\n", r.measure, what, value, target, verdict)
}

// Note adds a figure without a target.
func (r *Report) Note(what, value string) { r.add(what, value, "", "") }

// NoteTime adds a quantile without a target.
func (r *Report) NoteTime(what string, times *load.Times, q float64) {
	r.Note(what, Millis(times.Quantile(q)))
}

// Remark adds a line to the end of the report.
func (r *Report) Remark(what, text string) {
	r.remarks = append(r.remarks, r.measure+", "+what+": "+text)
}

// Target adds a figure that a slow machine may miss.
func (r *Report) Target(what, value, target string, ok bool) {
	verdict := "met"
	if !ok {
		verdict = "missed"
	}
	r.add(what, value, target, verdict)
}

// Limit adds a figure. If ok is false, the report is broken.
func (r *Report) Limit(what, value, limit string, ok bool) {
	verdict := "met"
	if !ok {
		verdict, r.broken = "BROKEN", true
	}
	r.add(what, value, limit, verdict)
}

// Quick adds a time that should be no longer than target.
func (r *Report) Quick(what string, value, target time.Duration) {
	r.Target(what, Millis(value), "<= "+Millis(target), value <= target)
}

// Below adds a figure that should be below target. The format is for the figure and for the target.
func (r *Report) Below(what, format string, value, target float64) {
	r.Target(what, fmt.Sprintf(format, value), "< "+fmt.Sprintf(format, target), value < target)
}

// Count adds a number that should be exactly target.
func (r *Report) Count(what string, value, target int) {
	r.Target(what, fmt.Sprint(value), fmt.Sprint(target), value == target)
}

// Never adds a number that must be 0.
func (r *Report) Never(what string, n int) { r.Limit(what, fmt.Sprint(n), "0", n == 0) }

// Memory adds a number of bytes with its limit.
func (r *Report) Memory(what string, bytes, limit int64) {
	mib := func(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }
	r.Limit(what, mib(bytes), "<= "+mib(limit), bytes <= limit)
}

// Within adds a time with its limit.
func (r *Report) Within(what string, d, limit time.Duration) {
	r.Limit(what, Millis(d), "<= "+Millis(limit), d <= limit)
}

// Ratio adds d divided by quiet, with its limit.
func (r *Report) Ratio(what string, d, quiet time.Duration, limit float64) {
	times := float64(d) / float64(max(quiet, 1))
	r.Limit(fmt.Sprintf("%s: %s against %s", what, Millis(d), Millis(quiet)), fmt.Sprintf("%.2f times", times), fmt.Sprintf("<= %.2f times", limit), times <= limit)
}

// Promises adds the counts of a ledger (package load). how is a prefix of the figures' names. ordered means that the order
// of the messages is known. No measure loses a lease, so each redelivery counts as a duplicate.
func (r *Report) Promises(how string, c load.Counts, ordered bool) {
	r.Never(how+"lost", c.Lost)
	r.Never(how+"stuck", c.Stuck)
	r.Never(how+"delivered twice or never pushed", c.Duplicates+c.Redelivered+c.Unexpected)
	if ordered {
		r.Never(how+"out of order", c.Disordered)
	}
}

// Millis formats a time in milliseconds.
func Millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
