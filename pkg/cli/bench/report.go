package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

// Result is one run of a scenario.
type Result struct {
	Scenario string `json:"scenario"`
	Run      int    `json:"run"`
	// Queue is the name of the queue if the queue was not deleted.
	Queue string `json:"queue,omitempty"`
	// Rate is the number of messages per second. The scenario push counts pushed messages, every other scenario
	// delivered messages.
	Rate     float64 `json:"rate"`
	Messages int     `json:"messages"`
	Seconds  float64 `json:"seconds"`
	Requests int     `json:"requests"`
	// Statements is the number of statements in the database during the scenario idle.
	Statements *int64         `json:"statements,omitempty"`
	Latencies  []load.Latency `json:"latencies"`
	// Errors counts failed requests by HTTP status, or by a word such as timeout. Examples has one error of each
	// kind.
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
	// Median has the median of each figure. It is nil for fewer than two runs.
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

// WriteTable writes the report as a table, with remarks below the table.
func (r *Report) WriteTable(w io.Writer) error {
	var remarks []string
	text := align(func(table io.Writer) {
		printf(table, "scenario\trun\tmessages/s\tmessages\tms from\tp50\tp95\tp99\tmax\terrors\tratio\tverdict\n")
		for _, o := range r.Outcomes {
			for k := range o.Runs {
				run := &o.Runs[k]
				run.writeRows(table, fmt.Sprint(run.Run), run.verdict())
				remarks = append(remarks, run.remarks(len(o.Runs) > 1)...)
			}
			if o.Median != nil {
				o.Median.writeRows(table, "median", "")
			}
		}
	})
	for _, remark := range remarks {
		text += "\n" + remark
	}
	if len(remarks) > 0 {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// writeRows writes one row for each measured time, or one row if there are no times.
func (r *Result) writeRows(table io.Writer, run, verdict string) {
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
	// Only the first row has the cells before and after the times.
	before := fmt.Sprintf("%s\t%s\t%s\t%d", r.Scenario, run, rate, r.Messages)
	after := fmt.Sprintf("%d\t%s\t%s", failed, ratio, verdict)
	if len(r.Latencies) == 0 {
		printf(table, "%s\t-\t-\t-\t-\t-\t%s\n", before, after)
	}
	for _, l := range r.Latencies {
		printf(table, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\n", before, l.Of, l.P50, l.P95, l.P99, l.Max, after)
		before, after = "\t\t\t", "\t\t"
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

// remarks returns the lines about a run that are printed below the table.
func (r *Result) remarks(numbered bool) []string {
	name := r.Scenario
	if numbered {
		name = fmt.Sprintf("%s, run %d", name, r.Run)
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, name+": "+fmt.Sprintf(format, args...)) }
	for _, text := range r.Faults {
		add("BROKEN: %s", text)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		add("%d requests failed with %s, for example: %s", r.Errors[kind], kind, r.Examples[kind])
	}
	if n := r.Counts.Redelivered; n > 0 {
		add("%d messages were delivered again after their lease had ended or their ack had failed", n)
	}
	if n := r.Counts.Unclear; n > 0 {
		add("%d messages were pushed without a clear answer; the server may or may not have stored them", n)
	}
	for _, text := range r.Notes {
		add("%s", text)
	}
	if b := r.Baseline; b != nil {
		add("plain INSERTs into the database, %d connections, %d rows per INSERT: %.0f rows/s, p50 %.2f ms; ratio: %s",
			b.Connections, b.Batch, b.Rate, b.Insert.P50, b.Of)
	}
	if r.Locks != nil {
		add("%s", r.Locks)
	}
	if r.Queue != "" {
		add("the queue was kept: %s", r.Queue)
	}
	return lines
}
