package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// jsonOf returns the JSON of a YAML value. The members of objects keep their order, and numbers keep their text if it is JSON.
func jsonOf(n *yaml.Node) ([]byte, error) {
	switch n.Kind { //nolint:exhaustive // a document is no value of a member, and a scalar follows
	case yaml.AliasNode:
		return jsonOf(n.Alias)
	case yaml.SequenceNode:
		return joined('[', ']', len(n.Content), func(b *bytes.Buffer, i int) error { return appendJSON(b, n.Content[i]) })
	case yaml.MappingNode:
		return joined('{', '}', len(n.Content)/2, func(b *bytes.Buffer, i int) error {
			key := n.Content[2*i]
			if key.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: a name of a member must be a text", key.Line)
			}
			if key.ShortTag() == "!!merge" {
				return fmt.Errorf("line %d: << is not possible in a payload: write the members", key.Line)
			}
			name, err := json.Marshal(key.Value)
			if err != nil {
				return err
			}
			b.Write(append(name, ':'))
			return appendJSON(b, n.Content[2*i+1])
		})
	}
	switch n.ShortTag() {
	case "!!null":
		return []byte("null"), nil
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return []byte(n.Value), nil
		}
		fallthrough
	case "!!bool":
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("line %d: JSON has no value %s", n.Line, n.Value)
		}
		return text, nil
	}
	return json.Marshal(n.Value)
}

func appendJSON(b *bytes.Buffer, n *yaml.Node) error {
	text, err := jsonOf(n)
	b.Write(text)
	return err
}

// joined returns n parts with commas between them.
func joined(begin, end byte, n int, part func(b *bytes.Buffer, i int) error) ([]byte, error) {
	b := bytes.NewBuffer([]byte{begin})
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := part(b, i); err != nil {
			return nil, err
		}
	}
	b.WriteByte(end)
	return b.Bytes(), nil
}

// nodeOf returns the YAML of a JSON value. jsonOf returns an equal JSON value for it.
func nodeOf(value []byte) (*yaml.Node, error) {
	return readNode(jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
}

func readNode(from *jsontext.Decoder) (*yaml.Node, error) {
	kind := from.PeekKind()
	if kind == '0' {
		text, err := from.ReadValue()
		tag := "!!int"
		if bytes.ContainsAny(text, ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: string(text)}, err
	}
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch kind { //nolint:exhaustive // true and false follow, and a number came before
	case '[', '{':
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		if kind == '{' {
			n.Kind = yaml.MappingNode
		}
		for from.PeekKind() != ']' && from.PeekKind() != '}' {
			one, err := readNode(from)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, one)
		}
		_, err := from.ReadToken()
		return n, err
	case '"':
		n := &yaml.Node{}
		n.SetString(token.String())
		if n.Value == "<<" {
			n.Style = yaml.DoubleQuotedStyle // without quotes it would merge objects
		}
		return n, nil
	case 'n':
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: token.String()}, nil
}
