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
// occurs twice in an object, the last value counts. Half of a surrogate pair,
// which JavaScript writes, is allowed here: BodyReader refuses it where a client
// could not read it. BodyReader also refuses raw bytes that are not UTF-8.
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
	return object(body, valuesTo(member))
}

// List is Object for a body whose member name is a long array. It passes each element on as it reads the element, so
// the array is not read twice. List calls start before the first element, and again if the member occurs twice. The
// result isArray is false when the body lacks the member, or the last one is not an array. List ignores all other
// members.
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

// reader reads the value of a member, at which dec is positioned.
type reader func(name string, dec *jsontext.Decoder) error

// valuesTo returns a reader that passes the value on.
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
		return queue.Invalidf("Invalid JSON: something follows the object at %s", position(body, int64(len(body)-len(rest))))
	}
	return nil
}

// members reads the object at which dec is positioned.
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

// Elements reads the array in raw, which must be valid JSON. ok is false when
// raw is not an array.
func Elements(raw jsontext.Value, element func(at int, value jsontext.Value) error) (ok bool, err error) {
	if raw.Kind() != '[' {
		return false, nil
	}
	dec := decode(raw)
	defer dec.done()
	return true, elements(&dec.Decoder, element)
}

// elements reads the array at which dec is positioned.
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

// Members reads the object in raw, which must be valid JSON. ok is false when
// raw is not an object.
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
