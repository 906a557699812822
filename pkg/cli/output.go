package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/theory/jsonpath"
	"go.yaml.in/yaml/v3"
)

// formats are the values of --output, without jsonpath=….
var formats = []string{"table", "wide", "json", "ndjson", "yaml"}

// column is a column of a table.
type column struct {
	title string
	// path leads to the value, such as messages.pending.
	path string
	// wide columns are shown by -o wide only.
	wide bool
	// show formats a value that is not null. nil: see plain.
	show func(value any) string
}

// printer prints answers in the format of --output.
type printer struct {
	out    io.Writer
	format string
	path   *jsonpath.Path
	quiet  bool
	bold   bool
}

// newPrinter reads --output.
func newPrinter(out io.Writer, format string, quiet, bold bool) (*printer, error) {
	p := &printer{out: out, format: format, quiet: quiet, bold: bold}
	if text, found := strings.CutPrefix(format, "jsonpath="); found {
		path, err := jsonpath.Parse(text)
		if err != nil {
			return nil, usageError(fmt.Sprintf("--output jsonpath: %v", err))
		}
		p.format, p.path = "jsonpath", path
		return p, nil
	}
	for _, known := range formats {
		if format == known {
			return p, nil
		}
	}
	return nil, usageError(fmt.Sprintf("--output is %q: it must be %s or jsonpath=EXPRESSION", format, strings.Join(formats, ", ")))
}

// isTable reports whether people read the output.
func (p *printer) isTable() bool { return p.format == "table" || p.format == "wide" }

// answer prints an answer of the server. rows is the path of its list, "" for the answer itself.
func (p *printer) answer(raw []byte, rows string, columns []column) error {
	if p.quiet {
		return nil
	}
	if p.format == "json" {
		var indented bytes.Buffer
		if err := json.Indent(&indented, raw, "", "  "); err != nil {
			return fmt.Errorf("formatting the answer: %w", err)
		}
		return p.write(indented.Bytes())
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	switch p.format {
	case "yaml":
		return p.yaml(raw)
	case "jsonpath":
		return p.selected(value)
	case "ndjson":
		return p.lines(listOf(value, rows))
	default:
		return p.table(listOf(value, rows), columns)
	}
}

func (p *printer) write(text []byte) error {
	_, err := p.out.Write(append(bytes.TrimRight(text, "\n"), '\n'))
	return err
}

// yaml prints JSON as YAML, with the members in their order.
func (p *printer) yaml(raw []byte) error {
	var node yaml.Node
	if err := yaml.Unmarshal(raw, &node); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	blockStyle(&node)
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return fmt.Errorf("formatting the answer: %w", err)
	}
	return p.write(text.Bytes())
}

func blockStyle(node *yaml.Node) {
	node.Style = 0
	for _, child := range node.Content {
		blockStyle(child)
	}
}

// selected prints what a JSONPath finds, one value a line, texts without quotes.
func (p *printer) selected(value any) error {
	for _, found := range p.path.Select(value) {
		text, isText := found.(string)
		line := []byte(text)
		if !isText {
			var err error
			if line, err = compact(found); err != nil {
				return err
			}
		}
		if err := p.write(line); err != nil {
			return err
		}
	}
	return nil
}

// lines prints each row as JSON in a line of its own.
func (p *printer) lines(rows []any) error {
	for _, row := range rows {
		line, err := compact(row)
		if err != nil {
			return err
		}
		if err := p.write(line); err != nil {
			return err
		}
	}
	return nil
}

func compact(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("formatting a value: %w", err)
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

func (p *printer) table(rows []any, columns []column) error {
	var shown []column
	for _, c := range columns {
		if !c.wide || p.format == "wide" {
			shown = append(shown, c)
		}
	}
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for i, c := range shown {
		separate(w, i)
		_, _ = io.WriteString(w, c.title)
	}
	_, _ = io.WriteString(w, "\n")
	for _, row := range rows {
		for i, c := range shown {
			separate(w, i)
			_, _ = io.WriteString(w, c.cell(row))
		}
		_, _ = io.WriteString(w, "\n")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if p.bold {
		lines[0] = "\x1b[1m" + lines[0] + "\x1b[0m"
	}
	return p.write([]byte(strings.Join(lines, "\n")))
}

func separate(w io.Writer, i int) {
	if i > 0 {
		_, _ = io.WriteString(w, "\t")
	}
}

// cell returns the text of a row in a column. A value that is missing or null is a dash.
func (c column) cell(row any) string {
	value := member(row, c.path)
	if value == nil || value == "" {
		return "-"
	}
	text := ""
	if c.show != nil {
		text = c.show(value)
	} else {
		text = plain(value)
	}
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, text)
}

// member follows a path through objects. An empty path is the value itself.
func member(value any, path string) any {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}

// listOf returns the list at path, or a list of the one value there.
func listOf(value any, path string) []any {
	switch found := member(value, path).(type) {
	case []any:
		return found
	case nil:
		return nil
	default:
		return []any{found}
	}
}

// plain returns a value for people: a text as it is, a boolean as yes or no, and others as JSON.
func plain(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	text, err := compact(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
