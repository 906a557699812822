// Package portable decides which JSON of a client may be stored. HTTP requests, the inbox and imports call
// Rules.Find.
//
// JSON has a flaw if some client of Queen MQ cannot read it. If a client cannot read one message, it loses
// the whole answer of its pop. The other messages of the answer stay leased, and no error is reported.
//
// The package promises that the five clients (JavaScript, Python, Go, PHP and C++) can read an answer with JSON
// that has no flaw. It does not check the syntax: malformed JSON may have no flaw.
//
// Find reads the bytes once and allocates no memory. If the JSON may have a flaw, Find reads it a second time to find
// the path.
package portable

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the maximum number of nested arrays and objects of a value. PHP has the lowest limit of the five clients:
// json_decode stops at 512 levels, and an answer puts 3 levels around a payload. Python stops at about 1,000 levels,
// minus the depth of its call stack. Go stops at 10,000. JavaScript reads more levels than it can write.
const MaxDepth = 500

// MaxAnyDepth is the same limit for Rules.Any. The JSON readers of the server and of the Go client stop at 10,000 levels,
// and a body or an answer puts up to 5 levels around a value.
const MaxAnyDepth = 9_990

// maxEnvelope is the maximum number of levels that a body puts around a value.
const maxEnvelope = 5

// Rules say which flaws are allowed. The zero Rules apply to JSON that is one value, and allow no
// flaw.
type Rules struct {
	// Any allows JSON that some client cannot read, up to MaxAnyDepth levels; see http.allow_any_json. It allows half of a
	// surrogate pair only in Values. Elsewhere the half would become U+FFFD, so two different names of queues could become
	// equal.
	Any bool
	// Values are the paths of the values in a body, without indexes: items[].payload. Nesting is counted from these
	// paths. Nil means that the whole JSON is one value.
	Values []string
	// Texts are the paths of strings that may have half of a surrogate pair, in the format of
	// Values.
	Texts []string
}

// Flaw is a place in JSON that some client cannot read.
type Flaw struct {
	// path has the format items[3].payload.a[2].
	path string
	// text describes the flaw. advice says what to send instead.
	text, advice string
	// final is set if http.allow_any_json does not allow the flaw.
	final bool
}

// Error returns a sentence for the sender. It has at most 300 bytes.
func (f *Flaw) Error() string {
	if f.final {
		return f.text + ": " + f.advice
	}
	return f.text + ", which some clients cannot read: " + f.advice + ", or set http.allow_any_json"
}

// Find returns the first flaw that the rules do not allow, or nil. root is the path of raw itself, and may be empty.
func (r *Rules) Find(root string, raw []byte) *Flaw {
	if !mayHaveFlaw(raw) {
		return nil
	}
	w := walker{Rules: r, root: root, limit: MaxDepth, decoder: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if r.Any {
		w.limit = MaxAnyDepth
	}
	for {
		if flaw, more := w.next(); flaw != nil || !more {
			return flaw
		}
	}
}

// walker reads JSON token by token.
type walker struct {
	*Rules
	root    string
	decoder *jsontext.Decoder
	// limit is the maximum number of levels of a value.
	limit int
	// names are the names of the members at the first levels.
	names [maxEnvelope + 1]string
}

// next reads one token. It returns the flaw of the token if the rules do not allow this flaw. more is false at the
// end, and at malformed JSON.
func (w *walker) next() (flaw *Flaw, more bool) {
	d := w.decoder
	switch d.PeekKind() {
	case '[', '{':
		if _, err := d.ReadToken(); err != nil {
			return nil, false
		}
		if depth := d.StackDepth(); depth > w.limit && depth-w.around() > w.limit {
			path := w.path(depth - 1)
			return &Flaw{path: path, final: w.Any, text: fmt.Sprintf("%s is at level %d of the nesting", clip(path), w.limit+1), advice: "send it with fewer levels"}, false
		}
	case '"':
		depth := d.StackDepth()
		kind, read := d.StackIndex(depth)
		isName := kind == '{' && read%2 == 0
		text, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		if isName && depth <= maxEnvelope {
			unquoted, _ := jsontext.AppendUnquote(nil, clip(string(text))) // names in an envelope are shorter than the limit of clip
			w.names[depth] = string(unquoted)
		}
		if at := loneSurrogate(text); at >= 0 && !w.allowsSurrogate(isName) {
			flaw = w.surrogateFlaw(isName, string(text[at:at+escapeLength]))
		}
	case '0':
		number, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		if !w.Any && beyondDouble(number) {
			path := w.path(d.StackDepth())
			flaw = &Flaw{path: path, text: clip(path) + " is " + clip(string(number)) + ", beyond the range of a double", advice: "send a smaller number or a string"}
		}
	default:
		if _, err := d.ReadToken(); err != nil {
			return nil, false
		}
	}
	return flaw, true
}

// around returns the number of levels around the value that is being read, or 0 outside of Values.
func (w *walker) around() int {
	level, _ := w.find(w.Values)
	return level
}

// allowsSurrogate reports whether the last read string may have half of a surrogate pair.
func (w *walker) allowsSurrogate(isName bool) bool {
	level, whole := w.find(w.Texts)
	return level > 0 && whole && !isName || w.Any && w.inValue()
}

// inValue reports whether the last read token is a part of a value.
func (w *walker) inValue() bool { return w.Values == nil || w.around() > 0 }

// find looks for a prefix of the path of the last read token in paths. It returns the level of this prefix,
// or 0. whole reports whether the prefix is the whole path.
func (w *walker) find(paths []string) (level int, whole bool) {
	path, depth := make([]byte, 0, 512), w.decoder.StackDepth()
	for level := 1; level <= min(depth, maxEnvelope); level++ {
		switch kind, _ := w.decoder.StackIndex(level); {
		case kind == '[':
			path = append(path, "[]"...)
		case len(path) > 0:
			path = append(append(path, '.'), w.names[level]...)
		default:
			path = append(path, w.names[level]...)
		}
		if slices.ContainsFunc(paths, func(p string) bool { return p == string(path) }) {
			return level, level == depth
		}
	}
	return 0, false
}

// surrogateFlaw returns the flaw of the last read string.
func (w *walker) surrogateFlaw(isName bool, escape string) *Flaw {
	depth, before := w.decoder.StackDepth(), ""
	if isName {
		depth, before = depth-1, "a member name in "
	}
	path := w.path(depth)
	return &Flaw{path: path, final: !w.inValue(), text: before + clip(path) + " has the escape " + escape + ", half of a surrogate pair", advice: "send both halves"}
}

// path returns the first levels of the path of the last read token, with indexes.
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

// isNumeric reports for each byte whether it can occur in a number. The letter of an exponent does
// not count.
var isNumeric = func() (numeric [256]bool) {
	for _, c := range "-+.0123456789" {
		numeric[c] = true
	}
	return numeric
}()

// mayHaveFlaw returns false only if raw has no flaw or is malformed.
func mayHaveFlaw(raw []byte) bool {
	depth := 0
	escaped := bytes.IndexByte(raw, '\\') >= 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			if i = stringEnd(raw, i+1, escaped); i < 0 {
				return true
			}
		case c >= '0' && c <= '9':
			if i = numberEnd(raw, i); i < 0 {
				return true
			}
		case c == '[', c == '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return false
}

// stringEnd returns the index of the quote that ends the string whose first character is at i. It returns -1 if the
// string has half of a surrogate pair or no end.
func stringEnd(raw []byte, i int, escaped bool) int {
	if !escaped {
		end := bytes.IndexByte(raw[i:], '"')
		if end < 0 {
			return -1
		}
		return i + end
	}
	for i < len(raw) {
		switch raw[i] {
		case '"':
			return i
		case '\\':
			size := escapeSize(raw[i:])
			if size < 0 {
				return -1
			}
			i += size
		default:
			i++
		}
	}
	return -1
}

// escapeLength is the length of an escape such as \ud83c.
const escapeLength = len(`\ud83c`)

// escapeSize returns the length of the escape at the start of b. For a surrogate pair it returns the length of both
// halves, and for half of a pair -1.
func escapeSize(b []byte) int {
	if len(b) < escapeLength || b[1] != 'u' {
		return 2
	}
	switch surrogateHalf(b) {
	case 0:
		return escapeLength
	case 1:
		if rest := b[escapeLength:]; len(rest) >= escapeLength && rest[0] == '\\' && rest[1] == 'u' && surrogateHalf(rest) == 2 {
			return 2 * escapeLength
		}
	}
	return -1
}

// surrogateHalf returns 1 if the escape at the start of b is the first half of a surrogate pair, 2 if it is the second
// half, and otherwise 0.
func surrogateHalf(b []byte) int {
	if b[2]|0x20 != 'd' {
		return 0
	}
	switch c := b[3] | 0x20; {
	case c == '8' || c == '9' || c == 'a' || c == 'b':
		return 1
	case c >= 'c' && c <= 'f':
		return 2
	}
	return 0
}

// loneSurrogate returns the index of the first escape in a JSON string that is half of a surrogate
// pair without the other half, or -1.
func loneSurrogate(text []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '\\')
		if n < 0 {
			return -1
		}
		size := escapeSize(text[at+n:])
		if size < 0 {
			return at + n
		}
		at += n + size
	}
}

// numberEnd returns the index of the last byte of the number at i, or -1 if it is beyond the range of a double.
func numberEnd(raw []byte, i int) int {
	end := i + 1
	for end < len(raw) && isNumeric[raw[end]] {
		end++
	}
	if end-i > safeDigits || end < len(raw) && raw[end]|0x20 == 'e' {
		for end++; end < len(raw) && isNumeric[raw[end]]; end++ {
		}
		end = min(end, len(raw))
		if beyondDouble(raw[i:end]) {
			return -1
		}
	}
	return end - 1
}

// A number with at most safeDigits bytes and an exponent of at most two digits is always within the range of
// a double.
const safeDigits = 200

// beyondDouble reports whether a JSON number is beyond the range of a double. A number too close to zero is within
// the range, because it is read as zero.
func beyondDouble(number []byte) bool {
	if len(number) <= safeDigits {
		exponent := bytes.IndexByte(number, 'e')
		if exponent < 0 {
			exponent = bytes.IndexByte(number, 'E')
		}
		if exponent < 0 || len(bytes.TrimLeft(number[exponent+1:], "+-0")) <= 2 {
			return false
		}
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err != nil
}
