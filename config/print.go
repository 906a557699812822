package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes the effective values as YAML with the keys of the file. A comment after each
// value has its source: default, file, env or flag. Passwords are printed as ***. It
// returns the error of w.
func (c Config) Print(w io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	sections := map[string]*yaml.Node{}
	for _, k := range allKeys() {
		section, name, _ := strings.Cut(k.name, ".")
		if sections[section] == nil {
			sections[section] = &yaml.Node{Kind: yaml.MappingNode}
			root.Content = append(root.Content, stringNode(section), sections[section])
		}
		sections[section].Content = append(sections[section].Content, stringNode(name), c.node(k))
	}
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(root), enc.Close()); err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	if len(c.ignored) > 0 {
		fmt.Fprintf(&buf, "# Variables of Queen MQ that are set and have no effect: %s\n", strings.Join(c.ignored, ", "))
	}
	if len(c.unknown) > 0 {
		fmt.Fprintf(&buf, "# Environment variables with the prefix BELFRY_ that do not name a setting: %s\n", strings.Join(c.unknown, ", "))
	}
	if _, err := buf.WriteTo(w); err != nil {
		return fmt.Errorf("printing the configuration: %w", err)
	}
	return nil
}

// node returns the YAML node of one value, with its source as a comment.
func (c Config) node(k key) *yaml.Node {
	shown := k.redact(k.format(k.valueIn(c)))
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: shown}
	switch {
	case k.typ.Kind() == reflect.String:
		n = stringNode(shown)
	case k.isList():
		n = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, text := range parseList(shown) {
			n.Content = append(n.Content, stringNode(text))
		}
	}
	if n.LineComment = c.sources[k.name]; n.LineComment == "" {
		n.LineComment = "default"
	}
	// A line break in a file name would end the comment.
	n.LineComment = "# " + strings.NewReplacer("\n", " ", "\r", " ").Replace(n.LineComment)
	return n
}

// stringNode returns a string node. The encoder quotes it where YAML needs quotes.
func stringNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}
