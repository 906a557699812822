package page

import (
	"fmt"
	"html/template"
	"strings"
)

// hidden returns hidden fields of a form. pairs alternates between names and values.
func hidden(pairs ...any) template.HTML {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := template.HTMLEscapeString(fmt.Sprint(pairs[i])), template.HTMLEscapeString(fmt.Sprint(pairs[i+1]))
		b.WriteString(`<input type="hidden" name="` + name + `" value="` + value + `">`)
	}
	return template.HTML(b.String()) //nolint:gosec // names and values are escaped
}

// table describes a table. Title is the id of its heading, or its label.
type table struct {
	Title   string
	Columns []column
}

// column is the head of a column. Only a screen reader reads a Hidden one.
type column struct {
	Text           string
	Number, Hidden bool
}

// newTable returns a table. The text of a column of numbers begins with "#", and the text of a hidden one with "-".
func newTable(title string, columns ...string) table {
	t := table{Title: title}
	for _, text := range columns {
		name := strings.TrimLeft(text, "#-")
		t.Columns = append(t.Columns, column{Text: name, Number: text[0] == '#', Hidden: text[0] == '-'})
	}
	return t
}
