package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var (
	// metricName matches the name of a Belfry metric.
	metricName = regexp.MustCompile(`^belfry_[a-z0-9_]+$`)
	// usedMetric finds metrics in an expression without its strings.
	usedMetric = regexp.MustCompile(`\bbelfry_[A-Za-z0-9_:]*`)
	// promString matches a string of an expression, such as the value of a label.
	promString = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")
)

// registered returns the names of the samples that packages below pkg export. A histogram exports three samples, and none
// of them has the plain name of the metric. A metric is found by its literal name: the field Name of its options, or the
// first argument of a call.
func registered(files []source) map[string]bool {
	samples := map[string]bool{}
	add := func(kind, name ast.Expr) {
		metric, ok := metricLiteral(name)
		if !ok {
			return
		}
		if !strings.Contains(strings.ToLower(lastName(kind)), "histogram") {
			samples[metric] = true
			return
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			samples[metric+suffix] = true
		}
	}
	for _, file := range files {
		if !strings.HasPrefix(file.dir, "pkg/") || file.test {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if len(n.Args) > 0 {
					add(n.Fun, n.Args[0])
				}
			case *ast.CompositeLit:
				for _, element := range n.Elts {
					if field, ok := element.(*ast.KeyValueExpr); ok && lastName(field.Key) == "Name" {
						add(n.Type, field.Value)
					}
				}
			}
			return true
		})
	}
	return samples
}

func metricLiteral(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil && metricName.MatchString(text)
}

// lastName returns the last part of a name, without the package or value before it.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}

// alertRules returns the rules of all groups.
func alertRules(document *yaml.Node) []*yaml.Node {
	var rules []*yaml.Node
	if groups := at(document, "groups"); groups != nil {
		for _, group := range groups.Content {
			if list := at(group, "rules"); list != nil {
				rules = append(rules, list.Content...)
			}
		}
	}
	return rules
}

// valueAt returns the value at keys, or "".
func valueAt(node *yaml.Node, keys ...string) string {
	if found := at(node, keys...); found != nil {
		return found.Value
	}
	return ""
}

// alertBreaches reports alerts on metrics that the server does not export, and alerts without instructions.
func alertBreaches(document *yaml.Node, samples map[string]bool) []string {
	var complaints []string
	for _, rule := range alertRules(document) {
		complain := func(format string, args ...any) {
			complaints = append(complaints, "config/prometheus/alerts.yml: "+valueAt(rule, "alert")+": "+fmt.Sprintf(format, args...))
		}
		used := usedMetric.FindAllString(promString.ReplaceAllString(valueAt(rule, "expr"), `""`), -1)
		if len(used) == 0 {
			complain("the expression uses no metric of Belfry")
		}
		for _, name := range used {
			if !samples[name] {
				complain("the server exports no %s; for a histogram, use _bucket, _sum or _count", name)
			}
		}
		if link, want := valueAt(rule, "annotations", "runbook_url"), runbookURL+strings.ToLower(valueAt(rule, "alert")); link != want {
			complain("runbook_url is %q: it must be %s", link, want)
		}
		for _, keys := range [][]string{{"labels", "severity"}, {"annotations", "summary"}, {"annotations", "description"}} {
			if valueAt(rule, keys...) == "" {
				complain("it has no %s", keys[1])
			}
		}
	}
	return complaints
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	alerts := readYAML(t, "config/prometheus/alerts.yml")
	require.NotEmpty(t, alertRules(alerts))
	holds(t, alertBreaches(alerts, registered(repository(t))))
}

func TestRegisteredMetricsAreFound(t *testing.T) {
	t.Parallel()
	const code = `package a
var (
	_ = counter("belfry_a_total", "Help about belfry_not_this.")
	_ = m.histogram("belfry_b_seconds", "Help.", nil)
	_ = prometheus.NewGauge(prometheus.GaugeOpts{Help: "belfry_nor_this", Name: "belfry_c"})
	_ = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "belfry_d", Help: "Help.",
	}, []string{"route"})
	_ = fmt.Sprintf("belfry_%s", "belfry_nor_that")
)`
	found := registered(samples("pkg/a/a.go :: " + code + ` ++ pkg/a/a_test.go :: package a; var _ = counter("belfry_of_a_test", "")` +
		` ++ test/a/a.go :: package a; var _ = counter("belfry_beside", "")`))
	require.Equal(t, map[string]bool{
		"belfry_a_total": true, "belfry_c": true,
		"belfry_b_seconds_bucket": true, "belfry_b_seconds_sum": true, "belfry_b_seconds_count": true,
		"belfry_d_bucket": true, "belfry_d_sum": true, "belfry_d_count": true,
	}, found)
}
