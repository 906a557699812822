package queue

import (
	"bytes"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxHeaders is how many headers a message can have.
	MaxHeaders = 32
	// MaxHeaderName is how many characters the name of a header can have.
	MaxHeaderName = 128
	// MaxHeaderBytes is how many bytes the names and values of the headers of a message can have together.
	MaxHeaderBytes = 8 << 10
)

// Headers are the headers of a message, as they are stored and delivered: a JSON object of texts. The names are in lower case and
// in ascending order, and there is no space between the parts. Nil means no headers. Make Headers with ParseHeaders.
type Headers []byte

type header struct{ name, value string }

// ParseHeaders reads a JSON object of texts. A name is a token of RFC 9110 of at most MaxHeaderName characters. Names are compared
// without case. A value has no control characters, so that it can become a header of HTTP. An empty object returns nil. Errors:
// CodeInvalid; the text names the header after path.
func ParseHeaders(path string, raw []byte) (Headers, error) {
	if isStored(raw) {
		return bytes.Clone(raw), nil
	}
	return parseHeaders(path, raw)
}

func parseHeaders(path string, raw []byte) (Headers, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil, Invalidf(`%s must be an object of texts, such as {"tenant": "acme"}`, path)
	}
	var all []header
	size := 0
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, Invalidf("%s: %v", path, err)
		}
		one := header{name: token.String()}
		if !isToken(one.name) {
			return nil, Invalidf("%s: a name of a header has 1 to %d letters, digits and characters of !#$%%&'*+-.^_`|~, not %.100q", path, MaxHeaderName, one.name)
		}
		one.name = strings.ToLower(one.name)
		value, err := d.ReadToken()
		if err != nil {
			return nil, Invalidf("%s.%s: %v", path, one.name, err)
		}
		if value.Kind() != '"' {
			return nil, Invalidf("%s.%s must be a text", path, one.name)
		}
		one.value = value.String()
		if strings.ContainsFunc(one.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, Invalidf("%s.%s has a control character: remove it", path, one.name)
		}
		size += len(one.name) + len(one.value)
		all = append(all, one)
		if len(all) > MaxHeaders || size > MaxHeaderBytes {
			return nil, Invalidf("%s: a message has at most %d headers, and their names and values have at most %d bytes", path, MaxHeaders, MaxHeaderBytes)
		}
	}
	if _, err := d.ReadToken(); err != nil { // the end of the object
		return nil, Invalidf("%s: %v", path, err)
	}
	return encode(path, all, size)
}

// isStored reports whether headers are written as ParseHeaders writes them, with no more than the characters of ASCII and no
// escapes. Most clients write them like that. It may report false for others that are written so.
func isStored(raw []byte) bool {
	var last []byte
	size, count := 0, 0
	for at := 0; ; count++ {
		opening := byte('{')
		if count > 0 {
			opening = ','
		}
		name, value, next, ok := member(raw, at, opening)
		size += len(name) + len(value)
		if !ok || count == MaxHeaders || size > MaxHeaderBytes || !isStoredName(name) || bytes.Compare(name, last) <= 0 {
			return false
		}
		if last, at = name, next; at == len(raw)-1 {
			return raw[at] == '}'
		}
	}
}

// member reads the text `{"name":"value"` at a place, with opening for {. The texts have no escapes. next is the place after it.
func member(raw []byte, at int, opening byte) (name, value []byte, next int, ok bool) {
	if at >= len(raw) || raw[at] != opening {
		return nil, nil, 0, false
	}
	if name, at = plainText(raw, at+1); at >= len(raw) || raw[at] != ':' {
		return nil, nil, 0, false
	}
	value, next = plainText(raw, at+1)
	return name, value, next, next < len(raw)
}

// plainText reads a JSON text of printable ASCII without escapes. It returns the place after the text, or len(raw) if there is no
// such text.
func plainText(raw []byte, at int) (text []byte, next int) {
	if at >= len(raw) || raw[at] != '"' {
		return nil, len(raw)
	}
	for end := at + 1; end < len(raw); end++ {
		switch c := raw[end]; {
		case c == '"':
			return raw[at+1 : end], end + 1
		case c < ' ' || c > '~' || c == '\\':
			return nil, len(raw)
		}
	}
	return nil, len(raw)
}

func isStoredName(name []byte) bool {
	for _, c := range name {
		if ('a' > c || c > 'z') && ('0' > c || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return 0 < len(name) && len(name) <= MaxHeaderName
}

func encode(path string, all []header, size int) (Headers, error) {
	if len(all) == 0 {
		return nil, nil
	}
	slices.SortFunc(all, func(a, b header) int { return strings.Compare(a.name, b.name) })
	b := make([]byte, 0, size+6*len(all)+2)
	for i, one := range all {
		if i > 0 && all[i-1].name == one.name {
			return nil, Invalidf("%s has %s twice: names with other case are equal", path, one.name)
		}
		b = append(b, ',')
		var err error
		if b, err = jsontext.AppendQuote(b, one.name); err != nil {
			return nil, Invalidf("%s.%s: %v", path, one.name, err)
		}
		if b, err = jsontext.AppendQuote(append(b, ':'), one.value); err != nil {
			return nil, Invalidf("%s.%s: %v", path, one.name, err)
		}
	}
	b[0] = '{'
	return append(b, '}'), nil
}

// NewHeaders returns the headers of a map that Map has made.
func NewHeaders(all map[string]string) Headers {
	if len(all) == 0 {
		return nil
	}
	raw, _ := json.Marshal(all, json.Deterministic(true)) // a map of texts
	return raw
}

// With returns the headers with more headers, which replace headers of the same names. Names are in lower case. If the result would
// not be valid, such as with too many headers, With returns the headers unchanged.
func (h Headers) With(more map[string]string) Headers {
	all := map[string]string{}
	maps.Copy(all, h.Map())
	maps.Copy(all, more)
	if made, err := ParseHeaders("headers", NewHeaders(all)); err == nil {
		return made
	}
	return h
}

// isToken reports whether name is a token of RFC 9110 of at most MaxHeaderName characters.
func isToken(name string) bool {
	return name != "" && len(name) <= MaxHeaderName && !strings.ContainsFunc(name, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// Get returns the value of a header, or "". name is in lower case.
func (h Headers) Get(name string) string {
	d := jsontext.NewDecoder(bytes.NewReader(h))
	for {
		if found, err := d.ReadToken(); err != nil {
			return ""
		} else if found.Kind() != '"' {
			continue
		} else if found.String() != name {
			_ = d.SkipValue() // an error ends the next read too
			continue
		}
		value, err := d.ReadToken()
		if err != nil {
			return ""
		}
		return value.String()
	}
}

// TraceID returns the trace id of the header traceparent, or the zero ID. A header that is not valid is ignored, as
// https://www.w3.org/TR/trace-context/ asks.
func (h Headers) TraceID() ID {
	const traceparent = "traceparent"
	if !bytes.Contains(h, []byte(`"`+traceparent+`"`)) {
		return ID{}
	}
	version, rest, _ := strings.Cut(h.Get(traceparent), "-")
	parts := strings.Split(rest, "-")
	const known = 3
	if len(parts) < known || version == "00" && len(parts) > known || version == "ff" || !isHex(version, 1) || !isHex(parts[0], len(ID{})) ||
		!isHex(parts[1], 8) || !isHex(parts[2], 1) || strings.Trim(parts[1], "0") == "" {
		return ID{}
	}
	var id ID
	_, _ = hex.Decode(id[:], []byte(parts[0])) // isHex has checked it
	return id
}

// Map returns the headers by name, or nil.
func (h Headers) Map() (all map[string]string) {
	if len(h) > 0 {
		_ = json.Unmarshal(h, &all) // stored headers are valid
	}
	return all
}

// isHex reports whether text consists of 2*size hexadecimal digits in lower case.
func isHex(text string, size int) bool {
	return len(text) == hex.EncodedLen(size) && strings.Trim(text, "0123456789abcdef") == ""
}
