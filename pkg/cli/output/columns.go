package output

import "strings"

// Columns describe the columns of a table, separated by spaces. A column is TITLE:PATH and options. PATH leads to the
// value, such as messages.pending. With the option :wide, only -o wide shows the column. The options :age, :list and
// :settings choose the format of the value.
type Columns string

type column struct {
	title, path string
	wide        bool
	show        func(value any) string
}

// forms are the options that choose the format of a value.
var forms = map[string]func(value any) string{"age": Age, "list": List, "settings": Settings}

// split parses the columns. It panics if an option is unknown.
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

// cell returns the text of a row in the column. A missing, null or empty value is a dash.
func (c *column) cell(row any) string {
	value := Member(row, c.path)
	if value == nil || value == "" {
		return "-"
	}
	return Clean(c.show(value))
}
