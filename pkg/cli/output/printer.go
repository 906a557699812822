package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/theory/jsonpath"
	"go.yaml.in/yaml/v3"
)

// Formats are the values of --output except jsonpath=….
var Formats = []string{"table", "wide", "json", "ndjson", "yaml"}

// Printer prints answers in the format of --output.
type Printer struct {
	out    io.Writer
	format string
	path   *jsonpath.Path
	// Quiet makes the printer print nothing.
	Quiet bool
	bold  bool
}

// New returns a printer for the value of --output, or an error if the value is invalid.
func New(out io.Writer, format string, quiet, bold bool) (*Printer, error) {
	p := &Printer{out: out, format: format, Quiet: quiet, bold: bold}
	if text, found := strings.CutPrefix(format, "jsonpath="); found {
		path, err := jsonpath.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--output jsonpath: %w", err)
		}
		p.format, p.path = "jsonpath", path
		return p, nil
	}
	for _, known := range Formats {
		if format == known {
			return p, nil
		}
	}
	return nil, fmt.Errorf("--output is %q: it must be %s or jsonpath=EXPRESSION", format, strings.Join(Formats, ", "))
}

// IsTable reports whether the output is a table for people.
func (p *Printer) IsTable() bool { return p.format == "table" || p.format == "wide" }

// Answer prints an answer of the server. rows is the path of the list in the answer. If rows is "", the answer is one
// row.
func (p *Printer) Answer(raw []byte, rows string, columns Columns) error {
	if p.Quiet {
		return nil
	}
	if p.format == "json" {
		var indented bytes.Buffer
		if err := json.Indent(&indented, raw, "", "  "); err != nil {
			return fmt.Errorf("formatting the answer: %w", err)
		}
		return p.Write(indented.Bytes())
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

func (p *Printer) Write(text []byte) error {
	_, err := p.out.Write(append(bytes.TrimRight(text, "\n"), '\n'))
	return err
}

// yaml prints JSON as YAML. The members keep their order.
func (p *Printer) yaml(raw []byte) error {
	node, err := nodeOf(jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return fmt.Errorf("formatting the answer: %w", err)
	}
	return p.Write(text.Bytes())
}

// nodeOf reads the next JSON value as a YAML node.
func nodeOf(decoder *jsontext.Decoder) (*yaml.Node, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{', '[':
		node := &yaml.Node{Kind: yaml.MappingNode}
		if token.Kind() == '[' {
			node.Kind = yaml.SequenceNode
		}
		for decoder.PeekKind() != '}' && decoder.PeekKind() != ']' {
			child, err := nodeOf(decoder)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err := decoder.ReadToken()
		return node, err
	case '"':
		node := &yaml.Node{}
		node.SetString(token.String())
		return node, nil
	default: // a number, true, false or null
		return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil
	}
}

// selected prints the values that the JSONPath selects, one per line. Strings have no quotes.
func (p *Printer) selected(value any) error {
	for _, found := range p.path.Select(value) {
		text, isText := found.(string)
		line := []byte(text)
		if !isText {
			var err error
			if line, err = Compact(found); err != nil {
				return err
			}
		}
		if err := p.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// lines prints each row as JSON on a separate line.
func (p *Printer) lines(rows []any) error {
	for _, row := range rows {
		line, err := Compact(row)
		if err != nil {
			return err
		}
		if err := p.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Compact returns a value as JSON on one line. It does not escape <, > and &.
func Compact(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("formatting a value: %w", err)
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

func (p *Printer) table(rows []any, columns Columns) error {
	var shown []column
	for _, c := range columns.split() {
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
	return p.Write([]byte(strings.Join(lines, "\n")))
}

func separate(w io.Writer, i int) {
	if i > 0 {
		_, _ = io.WriteString(w, "\t")
	}
}

// Clean replaces control characters and characters that a terminal cannot show. Payloads and names come from
// producers and may contain them.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, text)
}

// Rows returns the number of rows of an answer. rows is the path of the list, as for Answer.
func Rows(raw []byte, rows string) int {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return 0
	}
	return len(listOf(value, rows))
}

// Member returns the value at a path of member names. For an empty path it returns value.
func Member(value any, path string) any {
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

// listOf returns the list at path. A value that is not a list becomes a list of one. The path *queue.partitions is
// for an object of objects: it joins the lists at "partitions" of all members. It adds the name of the member to each
// row as "queue".
func listOf(value any, path string) []any {
	name, rest, _ := strings.Cut(path, ".")
	if name, found := strings.CutPrefix(name, "*"); found {
		return joined(value, name, rest)
	}
	switch found := Member(value, path).(type) {
	case []any:
		return found
	case nil:
		return nil
	default:
		return []any{found}
	}
}

func joined(value any, name, path string) (rows []any) {
	members, _ := value.(map[string]any) // a value that is not an object has no rows
	for _, key := range slices.Sorted(maps.Keys(members)) {
		for _, row := range listOf(members[key], path) {
			if object, isObject := row.(map[string]any); isObject {
				object[name] = key
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// Plain returns a value as text: a string without quotes, a boolean as yes or no, and other values as JSON.
func Plain(value any) string {
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
	text, err := Compact(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
