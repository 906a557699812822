// Package payload reads the lines of an input, and finds the partition key or transaction id in a payload.
//
// The package imports no other package of Belfry.
package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// Key reads the string or number at a JSONPath of a payload.
type Key struct {
	path *jsonpath.Path
	// members has the member names of a simple path such as $.customer.id, and is nil for other paths. For a simple
	// path, Key decodes the payload only up to the value. This halves the time per message.
	members []string
	reader  bytes.Reader
	decoder *jsontext.Decoder
}

// NewKey returns the key with the JSONPath text, or nil for an empty text. flag is the name of the flag in errors.
func NewKey(flag, text string) (*Key, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // a missing key is not an error
	}
	path, err := jsonpath.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	k := &Key{path: path, decoder: jsontext.NewDecoder(bytes.NewReader(nil))}
	for _, segment := range path.Query().Segments() {
		name, isName := segment.Selectors()[0].(spec.Name)
		if !isName || len(segment.Selectors()) > 1 || segment.IsDescendant() {
			k.members = nil
			break
		}
		k.members = append(k.members, string(name))
	}
	return k, nil
}

// Of returns the one value at the path as text. The payload must be valid JSON.
func (k *Key) Of(payload []byte) (string, error) {
	if k.members != nil {
		return k.follow(payload)
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	found := k.path.Select(value)
	if len(found) != 1 {
		return "", fmt.Errorf("has %d values at %s", len(found), k.path)
	}
	switch value := found[0].(type) {
	case string:
		return value, nil
	case json.Number:
		return value.String(), nil
	}
	return "", fmt.Errorf("has no text or number at %s", k.path)
}

// follow decodes the payload up to the value, and returns the value as text.
func (k *Key) follow(payload []byte) (string, error) {
	k.reader.Reset(payload)
	k.decoder.Reset(&k.reader, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for _, member := range k.members {
		found, err := k.enter(member)
		if err != nil {
			return "", err
		}
		if !found {
			return "", fmt.Errorf("has 0 values at %s", k.path)
		}
	}
	token, err := k.decoder.ReadToken()
	if err != nil {
		return "", err
	}
	if kind := token.Kind(); kind == '"' || kind == '0' {
		return token.String(), nil
	}
	return "", fmt.Errorf("has no text or number at %s", k.path)
}

// enter moves the decoder to the value of a member of the next object.
func (k *Key) enter(member string) (found bool, err error) {
	if k.decoder.PeekKind() != '{' {
		return false, nil
	}
	for {
		token, err := k.decoder.ReadToken()
		switch {
		case err == io.EOF: //nolint:errorlint // as documented
			return false, nil
		case err != nil:
			return false, err
		case token.Kind() == '{':
			continue
		case token.Kind() != '"':
			return false, nil
		case token.String() == member:
			return true, nil
		}
		if err := k.decoder.SkipValue(); err != nil {
			return false, err
		}
	}
}
