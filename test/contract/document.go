package contract

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
)

// object is a JSON object of the document.
type object = map[string]any

// Document is an OpenAPI document for checks. It is safe for concurrent use.
type Document struct {
	root       object
	operations []*operation
	schemas    map[string]*jsonschema.Schema // by JSON pointer
	ordered    *yaml.Node                    // the document with the order of its members
}

// operation is one method of one path.
type operation struct {
	method, path string
	steps        []string // the segments of path
	pointer      string
	node         object
}

// Load returns the document that the server sends.
func Load() (*Document, error) { return Parse(openapi.Document) }

// Parse reads a document and compiles its schemas.
func Parse(text []byte) (*Document, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	root, ok := parsed.(object)
	if !ok {
		return nil, fmt.Errorf("the document is not an object")
	}
	ordered := yaml.Node{}
	if err := yaml.Unmarshal(text, &ordered); err != nil {
		return nil, err
	}
	d := &Document{root: root, schemas: map[string]*jsonschema.Schema{}, ordered: ordered.Content[0]}
	paths := child(root, "paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := child(paths, path)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			d.operations = append(d.operations, &operation{
				method: strings.ToUpper(method), path: path, steps: strings.Split(path, "/"),
				pointer: "#/paths/" + escape(path) + "/" + method, node: child(item, method),
			})
		}
	}
	return d, d.compile()
}

// Operations returns every "METHOD /path/{parameter}" of the document, sorted.
func (d *Document) Operations() []string {
	names := make([]string, len(d.operations))
	for i, o := range d.operations {
		names[i] = o.method + " " + o.path
	}
	slices.Sort(names)
	return names
}

// compile compiles every schema of a parameter, header or body.
func (d *Document) compile() error {
	const location = "memory:///openapi.json"
	closed, ok := closeObjects(d.root).(object)
	if !ok {
		return fmt.Errorf("the document is not an object")
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(location, closed); err != nil {
		return err
	}
	for _, pointer := range d.schemaPointers() {
		schema, err := compiler.Compile(location + pointer)
		if err != nil {
			return fmt.Errorf("compiling %s: %w", pointer, err)
		}
		d.schemas[pointer] = schema
	}
	return nil
}

// schemaPointers returns the pointers of all schemas. These are the members called schema, and the named schemas in
// components.
func (d *Document) schemaPointers() []string {
	var pointers []string
	walk(d.root, "#", func(value any, pointer string) {
		if _, ok := value.(object); ok && strings.HasSuffix(pointer, "/schema") {
			pointers = append(pointers, pointer)
		}
	})
	for name := range child(child(d.root, "components"), "schemas") {
		pointers = append(pointers, "#/components/schemas/"+escape(name))
	}
	return pointers
}

// data are members that have values, not schemas.
var data = []string{"example", "examples", "default", "const", "enum"}

// walk visits every value with its pointer. It does not visit the content of the members in data.
func walk(value any, pointer string, visit func(value any, pointer string)) {
	visit(value, pointer)
	switch value := value.(type) {
	case object:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if !slices.Contains(data, key) || strings.HasSuffix(pointer, "/properties") {
				walk(value[key], pointer+"/"+escape(key), visit)
			}
		}
	case []any:
		for i, element := range value {
			walk(element, fmt.Sprintf("%s/%d", pointer, i), visit)
		}
	}
}

// closeObjects returns a copy of a schema. In the copy, an object with properties allows no other members, unless
// additionalProperties is set.
func closeObjects(value any) any {
	switch value := value.(type) {
	case object:
		out := make(object, len(value))
		for key, member := range value {
			out[key] = closeObjects(member)
		}
		_, others := value["additionalProperties"]
		if _, ok := value["properties"].(object); ok && value["type"] == "object" && !others {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, element := range value {
			out[i] = closeObjects(element)
		}
		return out
	default:
		return value
	}
}

// child returns a member that is an object, or nil.
func child(o object, key string) object {
	member, _ := o[key].(object)
	return member
}

// resolve follows references from the node at pointer.
func (d *Document) resolve(node object, pointer string) (object, string) {
	for {
		target, ok := node["$ref"].(string)
		if !ok {
			return node, pointer
		}
		pointer, node = target, d.at(target)
	}
}

// at returns the object at a pointer, or nil.
func (d *Document) at(pointer string) object {
	node := d.root
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		node = child(node, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return node
}

// operation returns the operation of a request, or nil. A literal path segment has priority over a parameter.
func (d *Document) operation(r *http.Request) *operation {
	var best *operation
	steps := strings.Split(r.URL.EscapedPath(), "/")
	for _, o := range d.operations {
		if o.method == r.Method && o.matches(steps) && (best == nil || o.before(best)) {
			best = o
		}
	}
	return best
}

func isParameter(step string) bool { return strings.HasPrefix(step, "{") }

func (o *operation) matches(steps []string) bool {
	return slices.EqualFunc(o.steps, steps, func(own, step string) bool { return isParameter(own) || own == step })
}

// before reports whether o has priority over other. Both match the request. o has priority if it has a literal segment
// where other first has a parameter.
func (o *operation) before(other *operation) bool {
	for i := range o.steps {
		if isParameter(o.steps[i]) != isParameter(other.steps[i]) {
			return !isParameter(o.steps[i])
		}
	}
	return false
}
