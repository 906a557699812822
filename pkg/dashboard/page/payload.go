package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxRaw is how many bytes of a payload the page shows unchanged.
	maxRaw = 32 << 10
	// MaxTree is the maximum size in bytes of the HTML tree of a payload.
	MaxTree = 64 << 10
	// maxDepth is how many levels of values the tree shows. The first openDepth levels are unfolded at first.
	maxDepth, openDepth = 32, 2
	// maxValue is how many bytes of a text value the tree shows.
	maxValue = 2000
)

// Payload has two views of a payload: a tree of its values, and the stored text.
type Payload struct {
	Tree template.HTML
	// Cut is true if the payload has more values than Tree.
	Cut bool
	// Raw is the beginning of the payload. Size is the size of the whole payload in bytes.
	Raw  string
	Size int64
}

// Whole reports whether Raw is the whole payload.
func (v *Payload) Whole() bool { return int64(len(v.Raw)) == v.Size }

// Editable returns Raw for a form. A character that changes the direction of text is shown as its escape, which is the same JSON.
func (v *Payload) Editable() string {
	var b strings.Builder
	for _, r := range v.Raw {
		if unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// ViewPayload returns the views of a payload. It keeps the text of numbers, so that large numbers are exact.
// Tree has about room bytes at most.
func ViewPayload(payload json.RawMessage, room int) Payload {
	v := Payload{Raw: firstBytes(string(payload), maxRaw), Size: int64(len(payload))}
	t := &tree{read: json.NewDecoder(bytes.NewReader(payload)), room: room, cut: room <= 0}
	t.read.UseNumber()
	if !t.value("", 0) {
		return v
	}
	v.Tree, v.Cut = template.HTML(t.out.String()), t.cut || t.deep //nolint:gosec // each text is escaped
	return v
}

// tree writes the values of a payload as HTML.
type tree struct {
	read *json.Decoder
	out  strings.Builder
	room int
	// cut is true when the tree has room bytes. deep is true if values below maxDepth are left out.
	cut, deep bool
}

func (t *tree) full() bool { return t.out.Len() > t.room }

// value writes the next value with its name. It returns false at the end of the payload, or if the payload is invalid.
func (t *tree) value(name string, depth int) bool {
	token, err := t.read.Token()
	if err != nil {
		return false
	}
	label := ""
	if name != "" {
		label = `<span class="name">` + string(said(clipValue(name))) + `</span> `
	}
	open, isList := token.(json.Delim)
	if !isList {
		t.write(label + scalar(token))
		return true
	}
	closing := map[json.Delim]string{'{': "}", '[': "]"}[open]
	if !t.read.More() {
		_, err := t.read.Token()
		t.write(label + `<span class="dim">` + open.String() + closing + `</span>`)
		return err == nil
	}
	if depth >= maxDepth {
		t.deep = true
		t.write(label + `<span class="dim">` + open.String() + "…" + closing + `</span>`)
		return t.skip()
	}
	state := ""
	if depth < openDepth {
		state = " open"
	}
	folded := !t.cut
	t.write("<details" + state + "><summary>" + label + `<span class="dim">` + open.String() + "…" + closing + `</span></summary><ul>`)
	ok := t.members(open, depth)
	if folded {
		t.out.WriteString("</ul></details>")
	}
	return ok
}

// members writes the remaining values of an object or a list.
func (t *tree) members(open json.Delim, depth int) bool {
	for t.read.More() {
		name := ""
		if open == '{' {
			token, err := t.read.Token()
			if err != nil {
				return false
			}
			name, _ = token.(string)
		}
		if t.cut = t.cut || t.full(); !t.cut {
			t.out.WriteString("<li>")
		}
		if !t.value(name, depth+1) {
			return false
		}
	}
	_, err := t.read.Token()
	return err == nil
}

// skip reads to the end of the current object or list.
func (t *tree) skip() bool {
	for open := 1; open > 0; {
		token, err := t.read.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			open++
		case json.Delim('}'), json.Delim(']'):
			open--
		}
	}
	return true
}

// write adds HTML, unless the tree is cut.
func (t *tree) write(text string) {
	if !t.cut {
		t.out.WriteString(text)
	}
}

// scalar writes a text, a number, true, false or null.
func scalar(token json.Token) string {
	switch v := token.(type) {
	case string:
		return `<span class="text">` + string(said(Quoted(clipValue(v)))) + `</span>`
	case json.Number:
		return `<span class="number">` + html.EscapeString(v.String()) + `</span>`
	case bool:
		if v {
			return `<span class="word">true</span>`
		}
		return `<span class="word">false</span>`
	}
	return `<span class="word">null</span>`
}

// clipValue returns the first maxValue bytes of a text. It appends "…" to a longer text.
func clipValue(text string) string {
	if len(text) <= maxValue {
		return text
	}
	return firstBytes(text, maxValue) + "…"
}

// firstBytes returns at most n bytes of a text. It does not split a character.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
