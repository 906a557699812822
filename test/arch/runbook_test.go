package arch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/doctor"
)

// runbookURL is the start of each runbook link in an alert.
const runbookURL = "https://github.com/belfry-mq/belfry/blob/main/" + doctor.Runbook + "#"

// runbookParts are the parts of each section, in order.
var runbookParts = []string{"**You see.**", "**It means.**", "**Look.**", "**Mend.**"}

var runbookLink = regexp.MustCompile(`\]\(#([^)]*)\)`)

// runbookBreaches reports names without a section, sections without a name, and sections that lack a part. It also reports
// links to sections that do not exist. A section begins with "### " and the name of an alert or the code of a check.
func runbookBreaches(text string, names []string) (complaints []string) {
	complain := func(format string, args ...any) {
		complaints = append(complaints, doctor.Runbook+": "+fmt.Sprintf(format, args...))
	}
	anchors := map[string]bool{}
	for _, section := range strings.Split(text, "\n### ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if !slices.Contains(names, name) {
			complain("%s is neither the name of an alert nor the code of a check", name)
		}
		if anchors[strings.ToLower(name)] {
			complain("%s has two sections", name)
		}
		anchors[strings.ToLower(name)] = true
		at := 0
		for _, part := range runbookParts {
			next := strings.Index(body[at:], "\n"+part)
			if next < 0 {
				complain("%s has no part %q in the right order", name, part)
				continue
			}
			at += next + len(part)
		}
	}
	for _, name := range names {
		if !anchors[strings.ToLower(name)] {
			complain("%s has no section", name)
		}
	}
	for _, link := range runbookLink.FindAllStringSubmatch(text, -1) {
		if !anchors[link[1]] {
			complain("a link leads to #%s, which is no section", link[1])
		}
	}
	return complaints
}

func TestTheRunbookHasEachAlertAndEachCheck(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(doctor.Runbook)))
	require.NoError(t, err)
	names := doctor.Codes()
	for _, rule := range alertRules(readYAML(t, "config/prometheus/alerts.yml")) {
		names = append(names, valueAt(rule, "alert"))
	}
	holds(t, runbookBreaches(string(text), names))
}
