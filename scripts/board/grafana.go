package main

// The types in this file are the parts of Grafana's JSON that the board uses.

type dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Version       int        `json:"version"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"` // 1 shows the same instant in all panels
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Timezone      string     `json:"timezone"`
	Links         []link     `json:"links"`
	Templating    templating `json:"templating"`
	Panels        []gridded  `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type link struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	Type        string `json:"type,omitempty"`
	TargetBlank bool   `json:"targetBlank"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Query      any            `json:"query"`
	Datasource *source        `json:"datasource,omitempty"`
	Current    map[string]any `json:"current,omitempty"`
	IncludeAll bool           `json:"includeAll"`
	AllValue   string         `json:"allValue,omitempty"`
	Multi      bool           `json:"multi"`
	Refresh    int            `json:"refresh"` // 2 reads the values again when the time range changes
	Sort       int            `json:"sort"`    // 1 sorts by name
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type gridded struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	GridPos     gridPos      `json:"gridPos"`
	Collapsed   *bool        `json:"collapsed,omitempty"`
	Panels      *[]gridded   `json:"panels,omitempty"`
	Datasource  *source      `json:"datasource,omitempty"`
	Targets     []target     `json:"targets,omitempty"`
	FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
	Options     any          `json:"options,omitempty"`
	Links       []link       `json:"links,omitempty"`
}

type target struct {
	RefID        string  `json:"refId"`
	Datasource   *source `json:"datasource"`
	Expr         string  `json:"expr"`
	LegendFormat string  `json:"legendFormat"`
	Range        bool    `json:"range"`
	Instant      bool    `json:"instant"`
	Format       string  `json:"format,omitempty"`
}

type fieldConfig struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []any         `json:"overrides"`
}

type fieldDefaults struct {
	Unit       string         `json:"unit"`
	Min        *float64       `json:"min,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
	Thresholds thresholds     `json:"thresholds"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"` // null: from minus infinity
}
