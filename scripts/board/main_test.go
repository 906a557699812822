package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// metric finds the names of metrics in an expression.
var metric = regexp.MustCompile(`\b(belfry|process)_[a-z0-9_]+`)

// units are the units of Grafana that the board uses.
var units = []string{"short", "s", "bytes", "cps", "reqps", "percentunit"}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

func TestTheBoardIsCurrent(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(boardPath)))
	require.NoError(t, err)
	generated, err := encode(board(rows()))
	require.NoError(t, err)
	require.Equal(t, string(generated), string(written), "run go run ./scripts/board")
}

func TestTheBoardIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deploy", "grafana"), 0o755))
	require.NoError(t, write(dir))
	written, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(boardPath)))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(written), "{\n"))
	require.ErrorContains(t, write(filepath.Join(dir, "missing")), "writing the board")
}

// positionBreaches reports panels with the same id, panels outside of the grid and panels that overlap.
func positionBreaches(panels []gridded) (complaints []string) {
	ids, taken := map[int]bool{}, map[gridPos]string{}
	for _, p := range panels {
		if ids[p.ID] || p.ID == 0 {
			complaints = append(complaints, p.Title+": the id is not unique")
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.X < 0 || at.Y < 0 || at.W <= 0 || at.H <= 0 || at.X+at.W > gridWidth {
			complaints = append(complaints, p.Title+": outside of the grid")
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				cell := gridPos{X: x, Y: y}
				if other := taken[cell]; other != "" {
					complaints = append(complaints, p.Title+" overlaps "+other)
					x = at.X + at.W
					break
				}
				taken[cell] = p.Title
			}
		}
	}
	return complaints
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	panels := board(rows()).Panels
	require.Empty(t, positionBreaches(panels))
	require.Equal(t, []string{"b: the id is not unique", "b overlaps a", "b: outside of the grid"}, func() []string {
		a := gridded{ID: 1, Title: "a", GridPos: gridPos{8, 8, 0, 0}}
		b := gridded{ID: 1, Title: "b", GridPos: gridPos{8, 8, 7, 7}}
		c := gridded{ID: 2, Title: "b", GridPos: gridPos{8, 8, 20, 20}}
		return positionBreaches([]gridded{a, b, c})
	}())
}

// panelBreaches reports panels without a text, a unit or a query, and queries that ignore the choice of instances.
func panelBreaches(p gridded) (complaints []string) {
	complain := func(what string) { complaints = append(complaints, p.Title+": "+what) }
	if len(p.Description) < 40 || !strings.Contains(p.Description, ".") {
		complain("the description is too short")
	}
	if p.FieldConfig == nil || !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
		complain("the unit is unknown")
	}
	if len(p.Targets) == 0 {
		complain("it has no query")
	}
	for _, q := range p.Targets {
		for _, name := range metric.FindAllStringIndex(q.Expr, -1) {
			if !strings.HasPrefix(q.Expr[name[1]:], `{instance=~"$instance"`) {
				complain("the query does not use the chosen instances: " + q.Expr)
			}
		}
		counter := strings.Contains(q.Expr, "_total{") || strings.Contains(q.Expr, "_bucket{") || strings.Contains(q.Expr, "_sum{")
		if counter && !strings.Contains(q.Expr, "rate(") && p.Title != "Faults inside Belfry" {
			complain("a counter needs rate(): " + q.Expr)
		}
		if q.LegendFormat == "" {
			complain("a query has no legend")
		}
	}
	return complaints
}

func TestEachPanelIsComplete(t *testing.T) {
	t.Parallel()
	titles := map[string]int{}
	row := ""
	for _, p := range board(rows()).Panels {
		if p.Type == "row" {
			row = p.Title
			continue
		}
		require.Empty(t, panelBreaches(p))
		titles[row+"/"+p.Title]++
		require.Equal(t, 1, titles[row+"/"+p.Title], p.Title)
	}
	require.Len(t, panelBreaches(gridded{Title: "x", Targets: []target{{Expr: "belfry_a_total"}}}), 4)
}

// metricsOf returns the metrics of expressions, without the ending of a histogram.
func metricsOf(expressions ...string) (names []string) {
	for _, e := range expressions {
		for _, name := range metric.FindAllString(e, -1) {
			names = append(names, strings.TrimSuffix(name, "_bucket"))
		}
	}
	return names
}

// Each alert must have a panel that shows its metric and links to its section of the runbook.
func TestEachAlertHasAPanel(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	readYAML(t, "config/prometheus/alerts.yml", &file)
	known := map[string]bool{}
	for _, rule := range file.Groups[0].Rules {
		known[rule.Alert] = true
		found := false
		for _, p := range board(rows()).Panels {
			if !slices.ContainsFunc(p.Links, func(l link) bool { return l.URL == runbookURL+strings.ToLower(rule.Alert) }) {
				continue
			}
			for _, q := range p.Targets {
				for _, name := range metricsOf(q.Expr) {
					found = found || slices.Contains(metricsOf(rule.Expr), name)
				}
			}
		}
		require.True(t, found, "no panel links to the runbook of %s and shows its metric", rule.Alert)
	}
	require.NotEmpty(t, known)
	for _, r := range rows() {
		for _, line := range r.lines {
			for _, p := range line {
				for _, alert := range p.alerts {
					require.True(t, known[alert], "%s: there is no alert %s", p.title, alert)
				}
			}
		}
	}
}

func TestGrafanaReadsTheBoardFromItsFolder(t *testing.T) {
	t.Parallel()
	var sources struct {
		Version     int `yaml:"apiVersion"`
		Datasources []struct{ Name, UID, Type, URL string }
	}
	readYAML(t, "deploy/grafana/provisioning/datasources/prometheus.yaml", &sources)
	require.Equal(t, 1, sources.Version)
	require.Len(t, sources.Datasources, 1)
	require.Equal(t, "prometheus", sources.Datasources[0].Type)
	require.Equal(t, "${PROMETHEUS_URL}", sources.Datasources[0].URL)
	var providers struct {
		Version   int `yaml:"apiVersion"`
		Providers []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	readYAML(t, "deploy/grafana/provisioning/dashboards/belfry.yaml", &providers)
	require.Equal(t, 1, providers.Version)
	require.Len(t, providers.Providers, 1)
	require.Equal(t, "file", providers.Providers[0].Type)
	require.Equal(t, "/var/lib/grafana/dashboards", providers.Providers[0].Options.Path)
}
