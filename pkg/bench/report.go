package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

// Result is one run of a scenario.
type Result struct {
	Scenario string `json:"scenario"`
	Run      int    `json:"run"`
	// Queue is the name of the queue if it was kept.
	Queue string `json:"queue,omitempty"`
	// Rate is messages per second: pushed in the scenario push, otherwise delivered.
	Rate     float64 `json:"rate"`
	Messages int     `json:"messages"`
	Seconds  float64 `json:"seconds"`
	Requests int     `json:"requests"`
	// Statements is the number of statements at the database during idle.
	Statements *int64         `json:"statements,omitempty"`
	Latencies  []load.Latency `json:"latencies"`
	// Errors counts failed requests by status, or by a word such as timeout. Examples has one of
	// each kind.
	Errors      map[string]int    `json:"errors"`
	Examples    map[string]string `json:"examples,omitempty"`
	Counts      load.Counts       `json:"counts"`
	Faults      []string          `json:"faults"`
	Notes       []string          `json:"notes,omitempty"`
	Interrupted bool              `json:"interrupted"`
	Baseline    *Baseline         `json:"baseline,omitempty"`
	Locks       *Locks            `json:"locks,omitempty"`
}

// Outcome is a scenario with all its runs.
type Outcome struct {
	Scenario string   `json:"scenario"`
	Settings Settings `json:"settings"`
	Runs     []Result `json:"runs"`
	// Median has the median of each figure; nil for fewer than two runs.
	Median *Result `json:"median,omitempty"`
}

// Report has all measurements.
type Report struct {
	Started  time.Time `json:"started"`
	Verified bool      `json:"verified"`
	Outcomes []Outcome `json:"outcomes"`
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// WriteTable writes the report as a table with remarks.
func (r *Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	// A strings.Builder never fails.
	_, _ = fmt.Fprint(table, "scenario\trun\tmessages/s\tmessages\tms from\tp50\tp95\tp99\tmax\terrors\tratio\tverdict\n")
	var remarks []string
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		for k := range o.Runs {
			run := &o.Runs[k]
			writeRows(table, run, fmt.Sprint(run.Run), run.verdict())
			remarks = append(remarks, run.remarks(len(o.Runs) > 1)...)
		}
		if o.Median != nil {
			writeRows(table, o.Median, "median", "")
		}
	}
	_ = table.Flush()
	for _, remark := range remarks {
		text.WriteString("\n" + remark)
	}
	if len(remarks) > 0 {
		text.WriteString("\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeRows writes a row for each measured time, at least one.
func writeRows(table io.Writer, r *Result, run, verdict string) {
	rate, ratio := "-", "-"
	if r.Rate > 0 {
		rate = fmt.Sprintf("%.0f", r.Rate)
	}
	if r.Baseline != nil {
		ratio = fmt.Sprintf("%.2f", r.Baseline.Ratio)
	}
	failed := 0
	for _, n := range r.Errors {
		failed += n
	}
	latencies := r.Latencies
	if len(latencies) == 0 {
		latencies = []load.Latency{{Of: "-"}}
	}
	for i, l := range latencies {
		times := "-\t-\t-\t-"
		if l.Count > 0 {
			times = fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.2f", l.P50, l.P95, l.P99, l.Max)
		}
		if i == 0 {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\t%s\n", r.Scenario, run, rate, r.Messages, l.Of, times, failed, ratio, verdict)
			continue
		}
		_, _ = fmt.Fprintf(table, "\t\t\t\t%s\t%s\t\t\t\n", l.Of, times)
	}
}

func (r *Result) verdict() string {
	switch {
	case len(r.Faults) > 0:
		return "BROKEN"
	case r.Interrupted:
		return "interrupted"
	}
	return "verified"
}

// remarks returns the lines about a run below the table.
func (r *Result) remarks(numbered bool) []string {
	name := r.Scenario
	if numbered {
		name = fmt.Sprintf("%s, run %d", name, r.Run)
	}
	var lines []string
	for _, text := range r.Faults {
		lines = append(lines, name+": BROKEN: "+text)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		lines = append(lines, fmt.Sprintf("%s: %d x %s, such as: %s", name, r.Errors[kind], kind, r.Examples[kind]))
	}
	if n := r.Counts.Redelivered; n > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d messages were delivered again after their lease was lost", name, n))
	}
	if n := r.Counts.Unclear; n > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d messages were pushed without a clear answer and may be stored or not", name, n))
	}
	for _, text := range r.Notes {
		lines = append(lines, name+": "+text)
	}
	if b := r.Baseline; b != nil {
		lines = append(lines, fmt.Sprintf("%s: the database alone, %d connections, %d rows an INSERT: %.0f rows/s, p50 %.2f ms; ratio: %s",
			name, b.Connections, b.Batch, b.Rate, b.Insert.P50, b.Of))
	}
	if r.Locks != nil {
		lines = append(lines, name+": "+r.Locks.String())
	}
	if r.Queue != "" {
		lines = append(lines, name+": the queue was kept: "+r.Queue)
	}
	return lines
}
