package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// decoding reads JSON as the clients of the reference system write it: a name
// twice in an object is not refused (the last one counts), and neither is the
// escape of a lone surrogate, which JavaScript produces. Raw bytes that are no
// UTF-8 are refused before.
var decoding = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// readOptionalBody is readBody for a route whose body may be missing.
func (s *Server) readOptionalBody(c echo.Context) ([]byte, error) {
	r := c.Request()
	if r.ContentLength == 0 || r.Body == nil {
		return nil, nil
	}
	body, err := s.readBody(c)
	if errors.Is(err, errEmptyBody) {
		return nil, nil
	}
	return body, err
}

// errEmptyBody is what a body without a byte is refused with.
var errEmptyBody = queue.Invalidf("Empty request body")

// readBody returns the whole body. Errors: CodeTooLarge over the limit,
// CodeInvalid when it is empty or no UTF-8.
func (s *Server) readBody(c echo.Context) ([]byte, error) {
	r := c.Request()
	buf := &bytes.Buffer{}
	if 0 < r.ContentLength && r.ContentLength <= s.cfg.MaxBodyBytes {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(c.Response(), r.Body, s.cfg.MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &queue.Error{Code: queue.CodeTooLarge, Message: fmt.Sprintf(
			"the body is larger than %d bytes: send fewer items a call, or raise http.max_body_bytes", tooLarge.Limit)}
	case err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case err != nil:
		return nil, queue.Invalidf("the body ended early: %v", err)
	case buf.Len() == 0:
		return nil, errEmptyBody
	}
	if at := firstInvalid(buf.Bytes()); at >= 0 {
		return nil, queue.Invalidf("Invalid JSON: byte %d is not UTF-8", at+1)
	}
	return buf.Bytes(), nil
}

func firstInvalid(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; ; {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
}

// decoders are those that nobody uses: one is made for each object of a batch else.
var decoders sync.Pool

// decoder reads JSON out of memory.
type decoder struct {
	jsontext.Decoder
	from bytes.Buffer
}

// decode returns a decoder of raw, to be put back into decoders.
func decode(raw []byte) *decoder {
	dec, ok := decoders.Get().(*decoder)
	if !ok {
		dec = &decoder{}
	}
	dec.from = *bytes.NewBuffer(raw) // is read in place
	dec.Reset(&dec.from, decoding...)
	return dec
}

func (dec *decoder) done() {
	dec.from = bytes.Buffer{}
	decoders.Put(dec)
}

// object reads one JSON object and hands each member's raw value to member. It
// checks the whole body: what is malformed anywhere stores nothing.
func object(body []byte, member func(name string, value jsontext.Value) error) error {
	dec := decode(body)
	defer dec.done()
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return syntaxError(body, err)
		}
		return queue.Invalidf("the body must be a JSON object")
	}
	if err := members(&dec.Decoder, member); err != nil {
		return syntaxError(body, err)
	}
	rest := bytes.TrimLeft(body[dec.InputOffset():], " \t\r\n")
	if len(rest) > 0 {
		return queue.Invalidf("Invalid JSON: something follows the object at %s", position(body, int64(len(body)-len(rest))))
	}
	return nil
}

// members reads the object dec stands before.
func members(dec *jsontext.Decoder, member func(name string, value jsontext.Value) error) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := member(name, value); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// elements reads the array in raw, which is known to be valid JSON. ok is false
// when raw is no array.
func elements(raw jsontext.Value, element func(value jsontext.Value) error) (ok bool, err error) {
	if raw.Kind() != '[' {
		return false, nil
	}
	dec := decode(raw)
	defer dec.done()
	if _, err := dec.ReadToken(); err != nil {
		return true, err
	}
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return true, err
		}
		if err := element(value); err != nil {
			return true, err
		}
	}
	return true, nil
}

// fields reads the object in raw, which is known to be valid JSON. ok is false
// when raw is no object.
func fields(raw jsontext.Value, member func(name string, value jsontext.Value) error) (ok bool, err error) {
	if raw.Kind() != '{' {
		return false, nil
	}
	dec := decode(raw)
	defer dec.done()
	return true, members(&dec.Decoder, member)
}

// text returns a JSON string's value; ok is false when raw is none.
func text(raw jsontext.Value) (value string, ok bool) {
	if raw.Kind() != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	// The only error left is a lone surrogate, which becomes U+FFFD.
	unquoted, _ := jsontext.AppendUnquote(nil, raw)
	return string(unquoted), true
}

// syntaxError names the place of what is wrong with body.
func syntaxError(body []byte, err error) error {
	var coded *queue.Error
	if errors.As(err, &coded) {
		return err
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return queue.Invalidf("Invalid JSON: %v at %s", syntactic.Err, position(body, syntactic.ByteOffset))
	}
	return queue.Invalidf("Invalid JSON: the body ends too early, at %s", position(body, int64(len(body))))
}

// position says where a byte offset is, counting from 1 as editors do.
func position(body []byte, offset int64) string {
	before := body[:min(offset, int64(len(body)))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("byte %d (line %d, column %d)", len(before)+1, line, column)
}

// checkName refuses what cannot be the name of a queue, partition or group.
func checkName(field, name string) error {
	switch {
	case len(name) > queue.MaxNameBytes:
		return queue.Invalidf("%s is %d bytes long: at most %d are allowed", field, len(name), queue.MaxNameBytes)
	case strings.ContainsRune(name, 0):
		return queue.Invalidf("%s contains a NUL character: remove it", field)
	default:
		return nil
	}
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	// The only error is invalid UTF-8, and that was replaced.
	quoted, _ := jsontext.AppendQuote(b, s)
	return quoted
}
