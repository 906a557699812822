package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// member is a member of an object. Its value is []member, []any or a scalar.
type member struct {
	name  string
	value any
}

// readOrdered reads a JSON value. Objects keep the order of their members.
func readOrdered(from *json.Decoder) (any, error) {
	token, err := from.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		members := []member{}
		for from.More() {
			name, err := from.Token()
			if err != nil {
				return nil, err
			}
			value, err := readOrdered(from)
			if err != nil {
				return nil, err
			}
			members = append(members, member{fmt.Sprint(name), value})
		}
		_, err = from.Token()
		return members, err
	case json.Delim('['):
		elements := []any{}
		for from.More() {
			value, err := readOrdered(from)
			if err != nil {
				return nil, err
			}
			elements = append(elements, value)
		}
		_, err = from.Token()
		return elements, err
	}
	return token, nil
}

// checkOrder complains about members of a body that are not in the order of the schema at pointer.
func (d *Document) checkOrder(pointer string, body []byte) []string {
	value, err := readOrdered(json.NewDecoder(bytes.NewReader(body)))
	schema := d.ordered
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		schema = valueOf(schema, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	if err != nil || schema == nil {
		return nil // checkJSON complains about this body
	}
	return d.misordered(schema, value, "")
}

// valueOf returns the value of a key, or nil.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	if at := find(mapping, key); at >= 0 {
		return mapping.Content[at]
	}
	return nil
}

func (d *Document) misordered(schema *yaml.Node, value any, place string) (complaints []string) {
	schema = d.follow(schema, value)
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			complaints = append(complaints, d.misordered(valueOf(schema, "items"), element, place+"[]")...)
		}
	case []member:
		names, last := keysOf(valueOf(schema, "properties")), -1
		for _, m := range value {
			index := slices.Index(names, m.name)
			if index >= 0 && index < last {
				complaints = append(complaints, fmt.Sprintf("%s: the member %s comes before %s in the document", at(place), m.name, names[last]))
			}
			inner := valueOf(valueOf(schema, "properties"), m.name)
			if index < 0 {
				inner = valueOf(schema, "additionalProperties")
			}
			last = max(last, index)
			complaints = append(complaints, d.misordered(inner, m.value, place+"."+m.name)...)
		}
	}
	return complaints
}

// follow returns the schema that a reference names. If the schema has alternatives, follow returns the first one that has
// all members of value.
func (d *Document) follow(schema *yaml.Node, value any) *yaml.Node {
	for valueOf(schema, "$ref") != nil {
		target := d.ordered
		for step := range strings.SplitSeq(strings.TrimPrefix(valueOf(schema, "$ref").Value, "#/"), "/") {
			target = valueOf(target, step)
		}
		schema = target
	}
	choices := valueOf(schema, "oneOf")
	if choices == nil {
		return schema
	}
	members, _ := value.([]member)
	elements, isArray := value.([]any)
	for _, choice := range choices.Content {
		choice = d.follow(choice, value)
		names := keysOf(valueOf(choice, "properties"))
		known := !slices.ContainsFunc(members, func(m member) bool { return !slices.Contains(names, m.name) })
		if isArray && valueOf(choice, "items") != nil || !isArray && known && members != nil || isArray && len(elements) == 0 {
			return choice
		}
	}
	return nil
}

func keysOf(mapping *yaml.Node) (names []string) {
	if mapping == nil {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		names = append(names, mapping.Content[i].Value)
	}
	return names
}
