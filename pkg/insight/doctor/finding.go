package doctor

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// The results of a check. A report is healthy if no check is Wrong.
const (
	OK      = "ok"
	Warning = "warning" // works now, and needs attention
	Wrong   = "wrong"   // does not work, or may lose data
	Unknown = "unknown" // could not be checked
)

// Runbook is the page with a section for each code.
const Runbook = "docs/runbook.md"

// add appends a finding.
func add(r *api.Examination, f api.Finding) {
	r.Checks = append(r.Checks, f)
	switch f.Result {
	case Wrong:
		r.Wrong++
	case Warning:
		r.Warnings++
	case Unknown:
		r.Unknown++
	}
	r.Healthy = r.Wrong == 0
}

// outcome is the part of a finding that a check computes.
type outcome struct {
	result string
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

// advise adds steps to the outcome, unless the outcome is OK.
func (o outcome) advise(steps ...string) outcome {
	if o.result != OK {
		o.do = append(o.do, steps...)
	}
	return o
}

// plainWord matches a word that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.:/-]*$`)

// shellWord quotes a name for a command line, if the name needs quotes.
func shellWord(name string) string {
	if plainWord.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
