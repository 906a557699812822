package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// typesFolder has the Go types of requests and responses.
	typesFolder = "pkg/client/api"
	// typeKey is the member of a schema that names a Go type. The other members of the schema change or complete the
	// schema of the type.
	typeKey = "x-go-type"
)

// goTypes has the types of typesFolder by name, and the named schemas of the document.
type goTypes struct {
	types   map[string]*ast.TypeSpec
	schemas node
}

// expand replaces each schema that names a Go type by the schema of this type. The comments of the fields become
// descriptions.
func expand(document []byte, folder string) ([]byte, error) {
	var parsed yaml.Node
	if err := yaml.Unmarshal(document, &parsed); err != nil {
		return nil, err
	}
	root := node{parsed.Content[0]}
	g := &goTypes{types: map[string]*ast.TypeSpec{}, schemas: root.get("components", "schemas")}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				g.types[spec.Name.Name] = spec
			}
			return true
		})
	}
	if err := g.expand(root.Node); err != nil {
		return nil, err
	}
	indented := &bytes.Buffer{}
	err = json.Indent(indented, []byte(root.json()), "", "  ")
	indented.WriteByte('\n')
	return indented.Bytes(), err
}

// expand replaces the schemas in n and in its children.
func (g *goTypes) expand(n *yaml.Node) error {
	for _, child := range n.Content {
		if err := g.expand(child); err != nil {
			return err
		}
	}
	name := node{n}.get(typeKey)
	if !name.exists() {
		return nil
	}
	spec := g.types[name.text()]
	if spec == nil {
		return fmt.Errorf("%s has no type %s", typesFolder, name.text())
	}
	schema, err := g.schema(spec.Type)
	if err != nil {
		return fmt.Errorf("%s: %w", name.text(), err)
	}
	for _, m := range (node{n}).members() {
		if m.name != typeKey {
			override(schema, m.name, m.value.Node)
		}
	}
	n.Content = schema.Content
	return nil
}

// override sets a member of a schema. It merges objects. A reference replaces everything except the description.
func override(schema *yaml.Node, name string, value *yaml.Node) {
	old := node{schema}.get(name)
	switch {
	case !old.exists():
		schema.Content = append(schema.Content, text(name), value)
	case (node{value}).get("$ref").exists():
		description := old.get("description")
		*old.Node = *value
		if description.exists() {
			old.Content = append(old.Content, text("description"), description.Node)
		}
	case value.Kind == yaml.MappingNode:
		for _, m := range (node{value}).members() {
			override(old.Node, m.name, m.value.Node)
		}
	default:
		*old.Node = *value
	}
}

// schema returns the schema of a Go type.
func (g *goTypes) schema(of ast.Expr) (*yaml.Node, error) {
	switch of := of.(type) {
	case *ast.StructType:
		return g.object(of)
	case *ast.StarExpr:
		inner, err := g.schema(of.X)
		return orNull(inner), err
	case *ast.ArrayType:
		items, err := g.schema(of.Elt)
		return mapping("type", text("array"), "items", items), err
	case *ast.MapType:
		values, err := g.schema(of.Value)
		return mapping("type", text("object"), "additionalProperties", values), err
	case *ast.SelectorExpr:
		switch of.Sel.Name {
		case "Time":
			return ref("Millis"), nil
		case "RawMessage":
			return mapping(), nil
		}
	case *ast.Ident:
		return g.named(of.Name)
	}
	return nil, fmt.Errorf("a schema cannot have the Go type %T", of)
}

// named returns the schema of a named type. The types int64 and float64 have the minimum 0.
func (g *goTypes) named(name string) (*yaml.Node, error) {
	switch name {
	case "string", "bool":
		return mapping("type", text(map[string]string{"string": "string", "bool": "boolean"}[name])), nil
	case "int64", "float64":
		kind := map[string]string{"int64": "integer", "float64": "number"}[name]
		return mapping("type", text(kind), "minimum", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "0"}), nil
	case "int":
		return mapping("type", text("integer")), nil
	case "Interval":
		return mapping("type", text("number")), nil
	case "any":
		return mapping(), nil
	case "ID":
		return ref("Id"), nil
	}
	if g.schemas.get(name).exists() {
		return ref(name), nil
	}
	if spec := g.types[name]; spec != nil {
		return g.schema(spec.Type)
	}
	return nil, fmt.Errorf("%s has no type %s", typesFolder, name)
}

// object returns the schema of a struct. A field with omitzero or omitempty is not required. If such a field is a
// pointer, the member is absent for nil, and so never null.
func (g *goTypes) object(of *ast.StructType) (*yaml.Node, error) {
	if len(of.Fields.List) == 0 {
		return mapping("type", text("object")), nil
	}
	required, properties := &yaml.Node{Kind: yaml.SequenceNode}, mapping()
	for _, field := range of.Fields.List {
		if len(field.Names) == 0 {
			spec := g.types[fmt.Sprint(field.Type)]
			if spec == nil {
				return nil, fmt.Errorf("%s has no type %v", typesFolder, field.Type)
			}
			embedded, err := g.schema(spec.Type)
			if err != nil {
				return nil, err
			}
			required.Content = append(required.Content, node{embedded}.get("required").Content...)
			properties.Content = append(properties.Content, node{embedded}.get("properties").Content...)
			continue
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return nil, err
		}
		name, option, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		kind := field.Type
		if pointer, ok := kind.(*ast.StarExpr); ok && option != "" {
			kind = pointer.X
		}
		schema, err := g.schema(kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if comment := strings.TrimSpace(field.Doc.Text() + field.Comment.Text()); comment != "" {
			schema.Content = append(schema.Content, text("description"), text(comment))
		}
		if option == "" {
			required.Content = append(required.Content, text(name))
		}
		properties.Content = append(properties.Content, text(name), schema)
	}
	return mapping("type", text("object"), "required", required, "properties", properties), nil
}

// orNull returns a schema that also allows null.
func orNull(schema *yaml.Node) *yaml.Node {
	kind := node{schema}.get("type")
	if !kind.exists() {
		null := mapping("type", text("null"))
		return mapping("oneOf", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{schema, null}})
	}
	*kind.Node = yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{text(kind.text()), text("null")}}
	return schema
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func ref(name string) *yaml.Node { return mapping("$ref", text("#/components/schemas/"+name)) }

// mapping returns an object. Its arguments are names and nodes by turns.
func mapping(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, one := range pairs {
		switch one := one.(type) {
		case string:
			n.Content = append(n.Content, text(one))
		case *yaml.Node:
			n.Content = append(n.Content, one)
		}
	}
	return n
}
