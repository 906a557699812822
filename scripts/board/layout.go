package main

import (
	"fmt"
	"strings"
)

const (
	docsURL    = "https://github.com/belfry-mq/belfry/blob/main/docs/"
	runbookURL = docsURL + "runbook.md#"
	// gridWidth is the number of columns of a board, and panelHeight the lines of a panel.
	gridWidth, panelHeight = 24, 8
)

// row is a titled part of the board. The panels of a line have the same width.
type row struct {
	title string
	lines [][]panel
}

// panel is a diagram or a number.
type panel struct {
	title string
	// about says what the panel shows and what to do.
	about   string
	unit    string
	queries []query
	// alerts are the alerts of config/prometheus/alerts.yml that the panel explains.
	alerts []string
	// kind is the type of the panel; "" is a diagram over time.
	kind string
	// limit is the value at which an alert may fire, as a line; 0 draws no line.
	limit float64
	// below means that values below limit are bad.
	below bool
}

type query struct{ expr, legend string }

// prometheus is the data source that the reader chooses.
func prometheus() *source { return &source{Type: "prometheus", UID: "${datasource}"} }

// board places the panels of the rows.
func board(all []row) dashboard {
	b := dashboard{
		UID: "belfry", Title: "Belfry", Description: "Health, traffic and lag of Belfry. Each panel says what to do.",
		Tags: []string{"belfry", "postgres", "queue"}, SchemaVersion: 39, Version: 1, Editable: true, GraphTooltip: 1,
		Refresh: "30s", Time: timeRange{"now-1h", "now"}, Timezone: "browser",
		Links: []link{
			{"Runbook", docsURL + "runbook.md", "link", true}, {"Operations", docsURL + "operations.md", "link", true},
		},
		Templating: templating{variables()},
	}
	y, id := 0, 0
	for _, r := range all {
		id++
		collapsed, none := false, []gridded{}
		b.Panels = append(b.Panels, gridded{
			ID: id, Type: "row", Title: r.title, GridPos: gridPos{1, gridWidth, 0, y}, Collapsed: &collapsed, Panels: &none,
		})
		y++
		for _, line := range r.lines {
			width := gridWidth / len(line)
			for i, p := range line {
				id++
				b.Panels = append(b.Panels, p.place(id, gridPos{panelHeight, width, i * width, y}))
			}
			y += panelHeight
		}
	}
	return b
}

// variables returns the choices above the board. A queue or group that is chosen limits only the panels with its label.
func variables() []variable {
	choice := func(name, label, values string) variable {
		return variable{
			Name: name, Label: label, Type: "query", Query: map[string]string{"query": values, "refId": "values"},
			Datasource: prometheus(), Current: map[string]any{"text": []string{"All"}, "value": []string{"$__all"}},
			IncludeAll: true, AllValue: ".*", Multi: true, Refresh: 2, Sort: 1,
		}
	}
	return []variable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1},
		choice("instance", "Instance", "label_values(belfry_listener_proven, instance)"),
		choice("queue", "Queue", `label_values(belfry_queue_messages{instance=~"$instance"}, queue)`),
		choice("group", "Group", `label_values(belfry_group_lag_messages{instance=~"$instance",queue=~"$queue"}, group)`),
	}
}

func (p panel) place(id int, at gridPos) gridded {
	kind := p.kind
	if kind == "" {
		kind = "timeseries"
	}
	g := gridded{
		ID: id, Type: kind, Title: p.title, Description: p.description(), GridPos: at, Datasource: prometheus(),
		FieldConfig: &fieldConfig{Defaults: p.defaults(kind), Overrides: []any{}}, Options: options(kind),
	}
	for i, q := range p.queries {
		t := target{RefID: string(rune('A' + i)), Datasource: prometheus(), Expr: q.expr, LegendFormat: q.legend}
		t.Instant = kind != "timeseries"
		t.Range = !t.Instant
		if kind == "table" {
			t.Format = "table"
		}
		g.Targets = append(g.Targets, t)
	}
	for _, alert := range p.alerts {
		g.Links = append(g.Links, link{Title: "Runbook: " + alert, URL: runbookURL + strings.ToLower(alert), TargetBlank: true})
	}
	return g
}

// description returns the text of a panel, with links to the runbook.
func (p panel) description() string {
	text := p.about
	for _, alert := range p.alerts {
		text += fmt.Sprintf("\n\nAlert [%s](%s).", alert, runbookURL+strings.ToLower(alert))
	}
	return text
}

func (p panel) defaults(kind string) fieldDefaults {
	good, bad := "green", "red"
	if p.below {
		good, bad = bad, good
	}
	d := fieldDefaults{Unit: p.unit, Thresholds: thresholds{Mode: "absolute", Steps: []step{{Color: good}}}}
	if p.limit != 0 {
		d.Thresholds.Steps = append(d.Thresholds.Steps, step{bad, &p.limit})
	}
	if kind == "timeseries" {
		zero := 0.0
		d.Min = &zero
		d.Custom = map[string]any{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}
		if p.limit != 0 {
			d.Custom["thresholdsStyle"] = map[string]string{"mode": "dashed"}
		}
	}
	return d
}

// options returns the options of a kind of panel.
func options(kind string) any {
	switch kind {
	case "timeseries":
		return map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	case "stat":
		return map[string]any{
			"colorMode": "value", "graphMode": "none", "textMode": "auto",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	default:
		return map[string]any{"showHeader": true}
	}
}
