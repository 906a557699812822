package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a value of the document, or empty. The document is parsed as YAML, because the YAML parser keeps the order
// of the members.
type node struct{ *yaml.Node }

// member is one member of an object.
type member struct {
	name  string
	value node
}

func (n node) exists() bool { return n.Node != nil }

// get returns the value at a path of member names, or an empty node.
func (n node) get(keys ...string) node {
	for _, key := range keys {
		var next *yaml.Node
		for _, m := range n.members() {
			if m.name == key {
				next = m.value.Node
			}
		}
		n = node{next}
	}
	return n
}

func (n node) members() []member {
	if n.Node == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	members := make([]member, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		members = append(members, member{n.Content[i].Value, node{n.Content[i+1]}})
	}
	return members
}

func (n node) elements() []node {
	if n.Node == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	elements := make([]node, len(n.Content))
	for i, element := range n.Content {
		elements[i] = node{element}
	}
	return elements
}

// text returns a string or a number, and "" for any other value.
func (n node) text() string {
	if n.Node == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// isTrue reports whether the node is the value true.
func (n node) isTrue() bool { return n.text() == "true" && n.ShortTag() == "!!bool" }

// json returns the value as JSON on one line.
func (n node) json() string {
	b := &bytes.Buffer{}
	n.write(b)
	return b.String()
}

func (n node) write(b *bytes.Buffer) {
	switch {
	case n.Kind == yaml.MappingNode:
		b.WriteByte('{')
		for i, m := range n.members() {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(m.name) + ": ")
			m.value.write(b)
		}
		b.WriteByte('}')
	case n.Kind == yaml.SequenceNode:
		b.WriteByte('[')
		for i, element := range n.elements() {
			if i > 0 {
				b.WriteString(", ")
			}
			element.write(b)
		}
		b.WriteByte(']')
	case n.ShortTag() == "!!str" || n.ShortTag() == "!!timestamp":
		b.WriteString(quote(n.Value))
	default:
		b.WriteString(n.Value)
	}
}

// pretty returns the value as JSON and breaks long lines.
func (n node) pretty(indent string) string {
	const width = 110
	line := n.json()
	if len(indent)+len(line) <= width || n.Kind == yaml.ScalarNode {
		return line
	}
	deeper := indent + "  "
	var parts []string
	for _, m := range n.members() {
		parts = append(parts, deeper+quote(m.name)+": "+m.value.pretty(deeper))
	}
	for _, element := range n.elements() {
		parts = append(parts, deeper+element.pretty(deeper))
	}
	open, shut := "{", "}"
	if n.Kind == yaml.SequenceNode {
		open, shut = "[", "]"
	}
	return open + "\n" + strings.Join(parts, ",\n") + "\n" + indent + shut
}

func quote(s string) string {
	b := &bytes.Buffer{}
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic(err) // every string can be encoded as JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}
