package output

import "strings"

// Columns are the columns of a table, with spaces between them. A column is TITLE:PATH. The path leads to the value, such as
// messages.pending. Options may follow: with :wide only -o wide shows the column, and :age, :list and :settings choose a form.
type Columns string

type column struct {
	title, path string
	wide        bool
	show        func(value any) string
}

// forms are the options that choose how a value is shown.
var forms = map[string]func(value any) string{"age": Age, "list": List, "settings": Settings}

// split panics if an option is not known.
func (c Columns) split() (all []column) {
	for _, text := range strings.Fields(string(c)) {
		parts := strings.Split(text, ":")
		one := column{title: parts[0], path: parts[1], show: Plain}
		for _, option := range parts[2:] {
			if form, known := forms[option]; known {
				one.show = form
			} else if one.wide = option == "wide"; !one.wide {
				panic("the column " + text + " has an unknown option")
			}
		}
		all = append(all, one)
	}
	return all
}

// cell returns the text of a row in a column. A value that is missing or null is a dash.
func (c *column) cell(row any) string {
	value := Member(row, c.path)
	if value == nil || value == "" {
		return "-"
	}
	return Clean(c.show(value))
}
