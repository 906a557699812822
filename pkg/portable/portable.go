// Package portable finds JSON that some client of Queen MQ cannot read. A client that cannot read one message
// loses the whole answer of its pop: the other messages of the answer stay leased, and nobody sees an error.
//
// It promises that the five clients (JavaScript, Python, Go, PHP and C++) can read an answer with JSON that has no
// flaw. It says nothing about the syntax: JSON that is malformed may have no flaw.
//
// Find reads the bytes once and makes no garbage. Only JSON that may have a flaw is read again, for the path.
// Every package of a higher floor may import it.
package portable

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may be nested. Of the five clients, PHP reads the least: json_decode stops
// at 512 levels, and an answer puts 3 levels around a payload. Python stops at about 1,000 levels,
// minus the calls of the program. Go stops at 10,000. JavaScript reads more levels than it can write.
const MaxDepth = 500

// Flaw is a place in JSON that some client cannot read.
type Flaw struct {
	// Path is like items[3].payload.a[2].
	Path string
	// LoneSurrogate reports that a string or a member name has half of a surrogate pair.
	LoneSurrogate bool
	// text says what is there, and advice what to send instead.
	text, advice string
}

// Error returns a sentence for the sender. It has at most 300 bytes.
func (f *Flaw) Error() string {
	return f.text + ", which some clients cannot read: " + f.advice + ", or set http.allow_any_json"
}

// Find returns the first flaw that accept does not allow, or nil. root is the path of raw itself, and may be empty. A
// nil accept allows nothing.
func Find(root string, raw []byte, accept func(*Flaw) bool) *Flaw {
	if !mayHaveFlaw(raw) {
		return nil
	}
	w := walker{root: root, decoder: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	for {
		flaw, more := w.next()
		if flaw != nil && (accept == nil || !accept(flaw)) {
			return flaw
		}
		if !more {
			return nil
		}
	}
}

// walker reads JSON token by token.
type walker struct {
	root    string
	decoder *jsontext.Decoder
}

// next reads one token and returns its flaw, or nil. more is false at the end, and at malformed JSON.
func (w *walker) next() (flaw *Flaw, more bool) {
	d := w.decoder
	switch d.PeekKind() {
	case '[', '{':
		if _, err := d.ReadToken(); err != nil {
			return nil, false
		}
		if d.StackDepth() > MaxDepth {
			path := w.path(d.StackDepth() - 1)
			return &Flaw{Path: path, text: fmt.Sprintf("%s is at level %d of the nesting", clip(path), MaxDepth+1), advice: "send it with fewer levels"}, false
		}
	case '"':
		kind, read := d.StackIndex(d.StackDepth())
		isName := kind == '{' && read%2 == 0
		text, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		if at := loneSurrogate(text); at >= 0 {
			flaw = w.surrogateFlaw(isName, string(text[at:at+escapeLength]))
		}
	case '0':
		number, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		if beyondDouble(number) {
			path := w.path(d.StackDepth())
			flaw = &Flaw{Path: path, text: clip(path) + " is " + clip(string(number)) + ", beyond the range of a double", advice: "send a smaller number or a string"}
		}
	default:
		if _, err := d.ReadToken(); err != nil {
			return nil, false
		}
	}
	return flaw, true
}

// surrogateFlaw returns the flaw of the string that was read last.
func (w *walker) surrogateFlaw(isName bool, escape string) *Flaw {
	depth, before := w.decoder.StackDepth(), ""
	if isName {
		depth, before = depth-1, "a member name in "
	}
	path := w.path(depth)
	return &Flaw{Path: path, LoneSurrogate: true, text: before + clip(path) + " has the escape " + escape + ", half of a surrogate pair", advice: "send both halves"}
}

// path returns the path of what was read last, with the indexes of so many levels.
func (w *walker) path(levels int) string {
	path := []byte(w.root)
	names := w.decoder.StackPointer().Tokens()
	level := 0
	for name := range names {
		if level++; level > levels {
			break
		}
		switch kind, read := w.decoder.StackIndex(level); {
		case kind == '[':
			path = strconv.AppendInt(append(path, '['), read-1, 10)
			path = append(path, ']')
		case !isIdentifier(name):
			path = append(strconv.AppendQuote(append(path, '['), name), ']')
		case len(path) > 0:
			path = append(append(path, '.'), name...)
		default:
			path = append(path, name...)
		}
	}
	if len(path) == 0 {
		return "the body"
	}
	return string(path)
}

func isIdentifier(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// clip shortens a text for an error.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most-3], "") + "..."
	}
	return text
}
