package page

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A name of more than longName characters is clipped. The whole name is shown while it has the focus or the pointer.
const longName = 48

// A browser shows a foreign text in a bdi element, so that letters of another direction do not move the text around it. See
// https://html.spec.whatwg.org/multipage/text-level-semantics.html#the-bdi-element.

// name returns the HTML of a name. Spaces at an end and beside another space are visible, and so are invisible characters.
func name(text string) template.HTML { return isolated(text, Visible(text), false) }

// cut is like name, for a place that is no link. The keyboard can reach a long text.
func cut(text string) template.HTML { return isolated(text, Visible(text), true) }

// said returns the HTML of a text or of a sentence with names.
func said(text string) template.HTML { return isolated("", visible(text, false), false) }

// exact returns the HTML of a text that people copy. No character is replaced.
func exact(text string) template.HTML { return isolated("", text, false) }

// group returns the HTML of the name of a group.
func group(text string) template.HTML {
	if text == QueueMode {
		return template.HTML(GroupName(text)) //nolint:gosec // a constant
	}
	return name(text)
}

func isolated(full, text string, focus bool) template.HTML {
	attributes := ""
	if utf8.RuneCountInString(full) > longName {
		attributes = ` class="long" title="` + template.HTMLEscapeString(Visible(full)) + `"`
		if focus {
			attributes += ` tabindex="0"`
		}
	}
	return template.HTML("<bdi" + attributes + ">" + template.HTMLEscapeString(text) + "</bdi>") //nolint:gosec // texts are escaped
}

// Visible returns a name whose invisible characters are replaced by visible ones.
func Visible(text string) string { return visible(text, true) }

// visible replaces control characters and characters that change the direction. If all is true, it also replaces other invisible
// characters, and the spaces that a browser does not show.
func visible(text string, all bool) string {
	var b strings.Builder
	runes := []rune(text)
	for i, r := range runes {
		lonely := i == 0 || i == len(runes)-1 || runes[i-1] == ' ' || runes[i+1] == ' '
		switch {
		case r == ' ' && all && lonely:
			b.WriteRune('␣')
		case r == ' ' || !all && (r == '\n' || r == '\t' || r == '\u202f'):
			b.WriteRune(r)
		case unicode.Is(unicode.Bidi_Control, r), unicode.IsControl(r), all && isInvisible(r):
			fmt.Fprintf(&b, "[U+%04X]", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Z, unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800'
}

// hidden returns hidden fields of a form. pairs alternates between names and values.
func hidden(pairs ...any) template.HTML {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := template.HTMLEscapeString(fmt.Sprint(pairs[i])), template.HTMLEscapeString(fmt.Sprint(pairs[i+1]))
		b.WriteString(`<input type="hidden" name="` + name + `" value="` + value + `">`)
	}
	return template.HTML(b.String()) //nolint:gosec // names and values are escaped
}

// table describes a table. Title is the id of its heading, or its label. In a narrow window, a row of a Stack is a block, so that
// its errors and buttons are in sight.
type table struct {
	Title   string
	Columns []column
	Stack   bool
}

// stack returns a table whose rows are blocks in a narrow window.
func stack(t table) table {
	t.Stack = true
	return t
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
