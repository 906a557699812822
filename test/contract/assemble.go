package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// head is the file into which Assemble merges the other files.
const head = "openapi.yaml"

// Assemble merges the *.yaml files at the top of a folder and returns the document as indented JSON. Members keep the order
// of the files.
func Assemble(folder fs.FS) ([]byte, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	found := map[string]*yaml.Node{}
	for _, name := range names {
		if found[name], err = readPart(folder, name); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	document := found[head]
	delete(found, head)
	if document == nil {
		return nil, errors.New("there is no " + head)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if err := merge(document, found[name], "#"); err != nil {
			return nil, err
		}
	}
	compact := &bytes.Buffer{}
	if err := writeJSON(compact, document); err != nil {
		return nil, err
	}
	indented := &bytes.Buffer{}
	if err := json.Indent(indented, compact.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

func readPart(folder fs.FS, name string) (*yaml.Node, error) {
	text, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it must be one YAML mapping")
	}
	return plain(document.Content[0]), nil
}

// plain returns a copy of the node in which aliases and merge keys are replaced by their content.
func plain(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return plain(n.Alias)
	}
	out := *n
	out.Content = nil
	if n.Kind != yaml.MappingNode {
		for _, child := range n.Content {
			out.Content = append(out.Content, plain(child))
		}
		return &out
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], plain(n.Content[i+1])
		if key.Value != "<<" {
			put(&out, key, value)
			continue
		}
		for j := 0; j+1 < len(value.Content); j += 2 {
			put(&out, value.Content[j], value.Content[j+1])
		}
	}
	return &out
}

// put sets a member. A later value replaces an earlier one, at its position.
func put(mapping, key, value *yaml.Node) {
	if at := find(mapping, key.Value); at >= 0 {
		mapping.Content[at] = value
		return
	}
	mapping.Content = append(mapping.Content, key, value)
}

// find returns the index of the value of key, or -1.
func find(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i + 1
		}
	}
	return -1
}

// merge adds part to into. It appends lists and merges objects member by member.
func merge(into, part *yaml.Node, place string) error {
	if into.Kind == yaml.SequenceNode && part.Kind == yaml.SequenceNode {
		into.Content = append(into.Content, part.Content...)
		return nil
	}
	if into.Kind != yaml.MappingNode || part.Kind != yaml.MappingNode {
		return fmt.Errorf("%s has two values, %q and %q", place, into.Value, part.Value)
	}
	for i := 0; i+1 < len(part.Content); i += 2 {
		key, value := part.Content[i], part.Content[i+1]
		at := find(into, key.Value)
		if at < 0 {
			into.Content = append(into.Content, key, value)
			continue
		}
		if err := merge(into.Content[at], value, place+"/"+escape(key.Value)); err != nil {
			return err
		}
	}
	return nil
}

// escape converts a key to a step of a JSON pointer.
func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeValue(b, n.Content[i].Value); err != nil {
				return err
			}
			b.WriteByte(':')
			// In a {...} mapping, an unquoted comma ends the text. YAML then reads the next words as a key without a value.
			if value := n.Content[i+1]; value.ShortTag() == "!!null" && value.Value == "" {
				return fmt.Errorf("line %d: %q has no value: put a text with commas in quotes", n.Content[i].Line, n.Content[i].Value)
			}
			if err := writeJSON(b, n.Content[i+1]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, element := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, element); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	default:
		return writeScalar(b, n)
	}
}

func writeScalar(b *bytes.Buffer, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return writeValue(b, strings.TrimRight(n.Value, "\n"))
	default:
		var value any
		if err := n.Decode(&value); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		return writeValue(b, value)
	}
}

func writeValue(b *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
