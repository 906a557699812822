package doctor

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Result is what a check found.
type Result string

// The results. A report is healthy if no check is Wrong.
const (
	OK      Result = "ok"
	Warning Result = "warning" // works now, and needs attention
	Wrong   Result = "wrong"   // does not work, or may lose data
	Unknown Result = "unknown" // could not be checked
)

// Runbook is the page with a section for each code.
const Runbook = "docs/runbook.md"

// Finding is the result of one check.
type Finding struct {
	// Code names the check.
	Code   string `json:"code"`
	Result Result `json:"result"`
	// Found is a sentence with the figures, or the reason why the check could not be done.
	Found string `json:"found"`
	// Why says why the check matters.
	Why string `json:"why"`
	// Do are steps or commands. It is empty if the result is OK.
	Do []string `json:"do"`
	// Runbook is the section of Runbook.
	Runbook string `json:"runbook"`
}

// Report is the answer of all checks, in a fixed order.
type Report struct {
	At time.Time `json:"at"`
	// Version is the version of the program that checked.
	Version string `json:"version"`
	// Healthy is false if a check is Wrong.
	Healthy  bool      `json:"healthy"`
	Wrong    int       `json:"wrong"`
	Warnings int       `json:"warnings"`
	Unknown  int       `json:"unknown"`
	Checks   []Finding `json:"checks"`
}

// add appends a finding.
func (r *Report) add(f Finding) {
	r.Checks = append(r.Checks, f)
	switch f.Result {
	case Wrong:
		r.Wrong++
	case Warning:
		r.Warnings++
	case Unknown:
		r.Unknown++
	case OK:
	}
	r.Healthy = r.Wrong == 0
}

// outcome is the part of a finding that depends on what was found.
type outcome struct {
	result Result
	found  string
	do     []string
}

func fine(format string, args ...any) outcome {
	return outcome{result: OK, found: fmt.Sprintf(format, args...)}
}

func warning(format string, args ...any) outcome {
	return outcome{result: Warning, found: fmt.Sprintf(format, args...)}
}

func wrong(format string, args ...any) outcome {
	return outcome{result: Wrong, found: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) outcome {
	return outcome{result: Unknown, found: fmt.Sprintf(format, args...)}
}

// failed is the outcome of a check that ended with an error.
func failed(err error) outcome { return unknown("The check failed: %v.", err) }

// advise returns the outcome with steps, unless it is OK.
func (o outcome) advise(steps ...string) outcome {
	if o.result != OK {
		o.do = append(o.do, steps...)
	}
	return o
}

// plainWord matches a word that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.:/-]*$`)

// shellWord returns a name for a command line.
func shellWord(name string) string {
	if plainWord.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
