package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/config/setting"
)

// fileReader reads the nodes of a YAML file. It does not decode into maps, because only a node
// has the line of a value, and shows whether the value was written as text or as a number.
type fileReader struct {
	path   string
	layer  map[string]entry
	errs   []error
	lineOf map[string]int
}

// quoted matches the text that an error of the YAML parser quotes from the file.
var quoted = regexp.MustCompile(`(?s)'.*'`)

// parseFile returns the settings of a YAML file. The error joins one error for each unknown
// key, repeated key and value of a wrong kind, each with its line.
func parseFile(path string, data []byte) (map[string]entry, error) {
	r := &fileReader{path: path, layer: map[string]entry{}, lineOf: map[string]int{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		// The value may be a secret. If it begins with * and has no quotes, the parser reads it as an alias, and the error quotes it.
		return nil, fmt.Errorf("parsing %s as YAML: %s", path, quoted.ReplaceAllString(err.Error(), "'"+setting.Hidden+"'"))
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("parsing %s: it must hold one YAML document: remove everything after the line ---", path)
	}
	r.section("", doc.Content[0])
	return r.layer, errors.Join(r.errs...)
}

func (r *fileReader) fail(node *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format+" (%s)", append(args, r.at(node))...))
}

func (r *fileReader) at(node *yaml.Node) string {
	return fmt.Sprintf("file %s:%d", r.path, node.Line)
}

// section reads the section with the name prefix ("": the whole file).
func (r *fileReader) section(prefix string, node *yaml.Node) {
	node = resolve(node)
	if isNull(node) {
		return // all keys of the section are comments
	}
	if node.Kind != yaml.MappingNode {
		what := "section " + prefix
		if prefix == "" {
			what = "the file"
		}
		r.fail(node, "%s must hold keys with values: %s", what, strings.Join(children(prefix), ", "))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		r.pair(prefix, node.Content[i], node.Content[i+1])
	}
}

func (r *fileReader) pair(prefix string, nameNode, value *yaml.Node) {
	name := nameNode.Value
	if prefix != "" {
		name = prefix + "." + name
	}
	if first, repeated := r.lineOf[name]; repeated {
		r.fail(nameNode, "%s is set twice, first on line %d: remove one of the two lines", name, first)
		return
	}
	r.lineOf[name] = nameNode.Line
	at := slices.Index(keyNames(), name)
	switch {
	case at >= 0:
		r.value(allKeys()[at], resolve(value))
	case nameNode.Kind == yaml.ScalarNode && len(children(name)) > 0:
		r.section(name, value)
	default:
		candidates := keyNames()
		if prefix == "" { // the user may have meant a section
			candidates = append(candidates, children("")...)
		}
		r.fail(nameNode, "the key %s is unknown: did you mean %s?", name, nearest(name, candidates))
	}
}

// value reads one value. A text setting must be text in YAML. Other settings may be quoted.
func (r *fileReader) value(k key, value *yaml.Node) {
	if k.isList() && value.Kind == yaml.SequenceNode {
		r.list(k, value)
		return
	}
	if value.Kind != yaml.ScalarNode {
		r.fail(value, "%s holds a list or a section: it must be %s", k.name, k.expected())
		return
	}
	if isNull(value) {
		r.fail(value, "%s has no value: it must be %s; remove the line to keep the default", k.name, k.expected())
		return
	}
	if k.typ.Kind() == reflect.String && value.Tag != "!!str" {
		r.fail(value, "%s is %s: it must be text: put the value in quotes", k.name, k.redact(value.Value))
		return
	}
	r.layer[k.name] = entry{text: value.Value, source: r.at(value)}
}

// list reads a list of texts.
func (r *fileReader) list(k key, value *yaml.Node) {
	texts := make([]string, len(value.Content))
	for i, element := range value.Content {
		if element = resolve(element); element.Kind != yaml.ScalarNode || element.Tag != "!!str" {
			r.fail(element, "%s has an element that is not text: it must be %s; put each text in quotes", k.name, k.expected())
			return
		}
		texts[i] = element.Value
	}
	r.layer[k.name] = entry{text: strings.Join(texts, ","), source: r.at(value)}
}

// children returns the names directly in a section; "" is the whole file.
func children(section string) []string {
	prefix := ""
	if section != "" {
		prefix = section + "."
	}
	var names []string
	for _, name := range keyNames() {
		rest, found := strings.CutPrefix(name, prefix)
		if !found {
			continue
		}
		if first, _, _ := strings.Cut(rest, "."); !slices.Contains(names, first) {
			names = append(names, first)
		}
	}
	return names
}

// resolve follows a YAML alias to its anchor.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}
