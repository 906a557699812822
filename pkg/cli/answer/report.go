package answer

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Report is an answer of GET /api/v1/doctor.
type Report struct{ api.Examination }

// ReadReport reads an answer of GET /api/v1/doctor.
func ReadReport(raw []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return &r, nil
}

// Fails reports whether a check found a fault. If strict, a warning counts as a fault.
func (r *Report) Fails(strict bool) bool { return !r.Healthy || strict && r.Warnings > 0 }

// results has the results in the order of the text. Results with detail are printed with the reason and the remedy.
var results = []struct {
	name   string
	detail bool
}{{"wrong", true}, {"warning", true}, {"unknown", true}, {"ok", false}}

// Text returns the report as text. Faults are first.
func (r *Report) Text() string {
	var b strings.Builder
	for _, result := range results {
		for i := range r.Checks {
			f := &r.Checks[i]
			if f.Result != result.name {
				continue
			}
			fmt.Fprintf(&b, "%-8s %-20s %s\n", strings.ToUpper(f.Result), f.Code, output.Clean(f.Found))
			if !result.detail {
				continue
			}
			const indent = "         "
			fmt.Fprintf(&b, "%swhy: %s\n", indent, f.Why)
			for _, step := range f.Do {
				fmt.Fprintf(&b, "%sdo:  %s\n", indent, output.Clean(step))
			}
			fmt.Fprintf(&b, "%ssee: %s\n\n", indent, f.Runbook)
		}
	}
	b.WriteString("\n" + r.verdict())
	return b.String()
}

// verdict returns the last line of the text.
func (r *Report) verdict() string {
	warnings := fmt.Sprintf("%d warnings", r.Warnings)
	if r.Warnings == 1 {
		warnings = "1 warning"
	}
	var line string
	switch {
	case !r.Healthy:
		line = fmt.Sprintf("Something is wrong: %d checks, %d wrong", len(r.Checks), r.Wrong)
		if r.Warnings > 0 {
			line += ", " + warnings
		}
	case r.Warnings > 0:
		line = fmt.Sprintf("%s, nothing wrong: %d checks", warnings, len(r.Checks))
	case r.Unknown > 0:
		line = fmt.Sprintf("Nothing is wrong in what was checked: %d checks", len(r.Checks))
	default:
		line = fmt.Sprintf("Nothing is wrong: %d checks", len(r.Checks))
	}
	if r.Unknown > 0 {
		line += fmt.Sprintf(", %d unknown", r.Unknown)
	}
	return line + "."
}
