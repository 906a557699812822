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

// decoding accepts two kinds of JSON that clients of Queen MQ send. If a name
// occurs twice in an object, the last value counts. Half of a surrogate pair, which
// JavaScript can write, is allowed here. BodyReader refuses it in values that other
// clients read. BodyReader also refuses raw bytes that are not UTF-8.
var decoding = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// decoders has idle decoders, because each object of a batch needs a decoder.
var decoders sync.Pool

// decoder reads JSON from memory.
type decoder struct {
	jsontext.Decoder
	from bytes.Buffer
}

// decode returns a decoder of raw. The caller calls done to return it to the pool.
func decode(raw []byte) *decoder {
	dec, ok := decoders.Get().(*decoder)
	if !ok {
		dec = &decoder{}
	}
	dec.from = *bytes.NewBuffer(raw) // without a copy
	dec.Reset(&dec.from, decoding...)
	return dec
}

func (dec *decoder) done() {
	dec.from = bytes.Buffer{}
	decoders.Put(dec)
}

// Object reads one JSON object and calls member with the raw value of each member.
// It reads the whole body, and returns an error if any part of it is malformed.
func Object(body []byte, member func(name string, value jsontext.Value) error) error {
	return object(body, valuesTo(member))
}

// List reads one JSON object that has a long array in the member name. It calls element for each element as it reads it, so
// the array is not read twice. It calls start before the first element of each array, because the member may occur twice.
// isArray is false if the member is missing, or if its last occurrence is not an array. List ignores all other members.
func List(body []byte, name string, start func(), element func(at int, value jsontext.Value) error) (isArray bool, err error) {
	err = object(body, func(member string, dec *jsontext.Decoder) error {
		if member != name {
			return dec.SkipValue()
		}
		start()
		isArray = dec.PeekKind() == '['
		if !isArray {
			return dec.SkipValue()
		}
		return elements(dec, element)
	})
	return isArray, err
}

// reader reads the value of the member name. dec is positioned at the value.
type reader func(name string, dec *jsontext.Decoder) error

// valuesTo returns a reader that calls member with the value.
func valuesTo(member func(name string, value jsontext.Value) error) reader {
	return func(name string, dec *jsontext.Decoder) error {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return member(name, value)
	}
}

func object(body []byte, read reader) error {
	dec := decode(body)
	defer dec.done()
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return syntaxError(body, err)
		}
		return queue.Invalidf("the body must be a JSON object")
	}
	if err := members(&dec.Decoder, read); err != nil {
		return syntaxError(body, err)
	}
	rest := bytes.TrimLeft(body[dec.InputOffset():], " \t\r\n")
	if len(rest) > 0 {
		return queue.Invalidf("Invalid JSON: the body has more text after the object, at %s", position(body, int64(len(body)-len(rest))))
	}
	return nil
}

// members calls read for each member of an object. dec is positioned at the object.
func members(dec *jsontext.Decoder, read reader) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := read(token.String(), dec); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// Elements calls element for each element of the array raw, which must be valid JSON.
// ok is false if raw is not an array.
func Elements(raw jsontext.Value, element func(at int, value jsontext.Value) error) (ok bool, err error) {
	if raw.Kind() != '[' {
		return false, nil
	}
	dec := decode(raw)
	defer dec.done()
	return true, elements(&dec.Decoder, element)
}

// elements calls element for each element of an array. dec is positioned at the array.
func elements(dec *jsontext.Decoder, element func(at int, value jsontext.Value) error) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for at := 0; dec.PeekKind() != ']'; at++ {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := element(at, value); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// Members calls member for each member of the object raw, which must be valid JSON.
// ok is false if raw is not an object.
func Members(raw jsontext.Value, member func(name string, value jsontext.Value) error) (ok bool, err error) {
	if raw.Kind() != '{' {
		return false, nil
	}
	dec := decode(raw)
	defer dec.done()
	return true, members(&dec.Decoder, valuesTo(member))
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
