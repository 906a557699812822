package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

// The verdicts of a figure.
const (
	met      = "met"
	missed   = "missed"
	violated = "BROKEN"
	noTarget = ""
)

// figure is one line of the table.
type figure struct{ measure, what, value, target, verdict string }

// report collects the figures. It belongs to one goroutine.
type report struct {
	measure string
	figures []figure
	remarks []string
	// broken: a message was lost, duplicated, out of order or stuck, or a measure failed.
	broken bool
}

func newReport() *report { return &report{} }

// begin names the measure of the next figures.
func (r *report) begin(measure string) { r.measure = measure }

func (r *report) add(what, value, target, verdict string) {
	r.figures = append(r.figures, figure{r.measure, what, value, target, verdict})
	r.broken = r.broken || verdict == violated
}

// note adds a figure without a target.
func (r *report) note(what, value string) { r.add(what, value, "", noTarget) }

// remark adds a line below the table.
func (r *report) remark(what, text string) {
	r.remarks = append(r.remarks, r.measure+", "+what+": "+text)
}

// noteTime adds a quantile without a target.
func (r *report) noteTime(what string, times *load.Times, q float64) {
	r.note(what, millis(times.Quantile(q)))
}

// quick adds a time that should be no longer than target.
func (r *report) quick(what string, value, target time.Duration) {
	r.add(what, millis(value), "<= "+millis(target), verdictOf(value <= target))
}

// below adds a figure that should be below target; format formats both.
func (r *report) below(what, format string, value, target float64) {
	r.add(what, fmt.Sprintf(format, value), "< "+fmt.Sprintf(format, target), verdictOf(value < target))
}

// count adds a number that should be exactly target.
func (r *report) count(what string, value, target int) {
	r.add(what, fmt.Sprint(value), fmt.Sprint(target), verdictOf(value == target))
}

// never adds a number of broken promises.
func (r *report) never(what string, value int) {
	verdict := met
	if value != 0 {
		verdict = violated
	}
	r.add(what, fmt.Sprint(value), "0", verdict)
}

// promises reports what a ledger found. how is a prefix of the names; ordered says that the order
// is known. No measure loses a lease, so a redelivery is a duplicate.
func (r *report) promises(how string, c load.Counts, ordered bool) {
	r.never(how+"lost", c.Lost)
	r.never(how+"stuck", c.Stuck)
	r.never(how+"delivered twice or never pushed", c.Duplicates+c.Redelivered+c.Unexpected)
	if ordered {
		r.never(how+"out of order", c.Disordered)
	}
}

// failed adds a measure that failed.
func (r *report) failed(err error) { r.add("failed: "+err.Error(), "", "", violated) }

func verdictOf(ok bool) string {
	if ok {
		return met
	}
	return missed
}

// write prints the table.
func (r *report) write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	printf(table, "measure\twhat\tfigure\ttarget\t\n")
	last := ""
	for _, f := range r.figures {
		name := f.measure
		if name == last {
			name = ""
		}
		last = f.measure
		printf(table, "%s\t%s\t%s\t%s\t%s\n", name, f.what, f.value, f.target, f.verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, remark := range r.remarks {
		printf(w, "\n%s\n", remark)
	}
	return nil
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
