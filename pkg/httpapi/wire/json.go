package wire

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// decoding accepts two things that clients of Queen MQ send. Of a name that
// occurs twice in an object, the last value counts. The escape of a lone
// surrogate, which JavaScript writes, is allowed. BodyReader has already
// refused raw bytes that are not UTF-8.
var decoding = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// decoders holds idle decoders, because each object of a batch needs one.
var decoders sync.Pool

// decoder reads JSON from memory.
type decoder struct {
	jsontext.Decoder
	from bytes.Buffer
}

// decode returns a decoder of raw. The caller returns it to the pool with done.
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

// Object reads one JSON object and passes the raw value of each member to
// member. It reads the whole body: a body that is malformed anywhere is an
// error.
func Object(body []byte, member func(name string, value jsontext.Value) error) error {
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

// members reads the object at which dec is positioned.
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

// Elements reads the array in raw, which must be valid JSON. ok is false when
// raw is not an array.
func Elements(raw jsontext.Value, element func(value jsontext.Value) error) (ok bool, err error) {
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

// Members reads the object in raw, which must be valid JSON. ok is false when
// raw is not an object.
func Members(raw jsontext.Value, member func(name string, value jsontext.Value) error) (ok bool, err error) {
	if raw.Kind() != '{' {
		return false, nil
	}
	dec := decode(raw)
	defer dec.done()
	return true, members(&dec.Decoder, member)
}

// syntaxError adds the position of the mistake in body to err.
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

// position describes a byte offset. It counts from 1, as editors do.
func position(body []byte, offset int64) string {
	before := body[:min(offset, int64(len(body)))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("byte %d (line %d, column %d)", len(before)+1, line, column)
}
