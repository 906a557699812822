package main

import (
	"fmt"
	"path"
	"strings"
)

// row is one member of a body, or one parameter.
type row struct{ name, kind, required, meaning string }

// table lists the members of one kind of object. If a value can have several kinds, title is the name of the kind.
type table struct {
	title string
	rows  []row
}

// resolve follows references. If a node has a reference and a description, this description replaces the description
// of the target.
func (p *page) resolve(n node) (resolved node, description string) {
	description = n.get("description").text()
	for n.get("$ref").exists() {
		n = p.root.get(strings.Split(strings.TrimPrefix(unescape(n.get("$ref").text()), "#/"), "/")...)
		if description == "" {
			description = n.get("description").text()
		}
	}
	return n, description
}

func unescape(pointer string) string { return strings.ReplaceAll(pointer, "~0", "~") }

// kind returns a text about the values that a schema allows.
func (p *page) kind(schema node) string {
	resolved, _ := p.resolve(schema)
	if constant := resolved.get("const"); constant.exists() {
		return "`" + constant.json() + "`"
	}
	if values := resolved.get("enum").elements(); len(values) > 0 {
		return joined(values, func(n node) string { return "`" + n.json() + "`" })
	}
	if choices := resolved.get("oneOf").elements(); len(choices) > 0 {
		return joined(choices, p.kind)
	}
	types := resolved.get("type").elements()
	if len(types) == 0 && resolved.get("type").exists() {
		types = []node{resolved.get("type")}
	}
	if len(types) == 0 {
		return "any"
	}
	return joined(types, func(n node) string { return p.simple(n.text(), resolved) })
}

func joined(nodes []node, text func(node) string) string {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = text(n)
	}
	return strings.Join(texts, " or ")
}

func (p *page) simple(name string, schema node) string {
	switch {
	case name == "array":
		if items := p.kind(schema.get("items")); items != "any" {
			return "array of " + items
		}
	case name == "string" && schema.get("format").text() == "uuid":
		return "UUID"
	case name == "string" && schema.get("format").text() == "date-time":
		return "instant"
	case name == "integer" || name == "number":
		return name + span(schema.get("minimum").text(), schema.get("maximum").text())
	}
	return name
}

func span(low, high string) string {
	switch {
	case low != "" && high != "":
		return fmt.Sprintf(" %s–%s", low, high)
	case low != "" && low != "0":
		return " ≥ " + low
	default:
		return ""
	}
}

// meaning returns the description, followed by the default if there is one.
func (p *page) meaning(schema node, description string) string {
	resolved, other := p.resolve(schema)
	if description == "" {
		description = other
	}
	fallback := schema.get("default")
	if !fallback.exists() {
		fallback = resolved.get("default")
	}
	if fallback.exists() {
		description = strings.TrimSpace(description + " Default `" + fallback.json() + "`.")
	}
	return strings.ReplaceAll(description, "\n", " ")
}

// tables returns a table for every object that a schema allows, with the members of nested objects.
func (p *page) tables(schema node) []table {
	resolved, _ := p.resolve(schema)
	prefix := ""
	if resolved.get("type").text() == "array" {
		prefix = "[]."
		schema = resolved.get("items")
		resolved, _ = p.resolve(schema)
	}
	var tables []table
	for _, choice := range append(resolved.get("oneOf").elements(), schema) {
		title := path.Base(choice.get("$ref").text())
		if choice.Node == schema.Node {
			title = ""
		}
		inside, _ := p.resolve(choice)
		deeper := prefix
		if inside.get("type").text() == "array" { // the array is one of several kinds
			title = "Array"
			deeper += "[]."
			inside, _ = p.resolve(inside.get("items"))
		}
		if rows := p.rows(inside, deeper); len(rows) > 0 {
			tables = append(tables, table{title, rows})
		}
	}
	return tables
}

// rows returns the members of an object and of the objects in it.
func (p *page) rows(schema node, prefix string) []row {
	required := map[string]bool{}
	for _, name := range schema.get("required").elements() {
		required[name.text()] = true
	}
	var rows []row
	for _, m := range schema.get("properties").members() {
		member := row{name: prefix + m.name, kind: p.kind(m.value), meaning: p.meaning(m.value, "")}
		if required[m.name] {
			member.required = "yes"
		}
		rows = append(rows, member)
		inner, _ := p.resolve(m.value)
		deeper := prefix + m.name + "."
		if inner.get("type").text() == "array" {
			inner, _ = p.resolve(inner.get("items"))
			deeper = prefix + m.name + "[]."
		}
		for _, choice := range append(inner.get("oneOf").elements(), inner) {
			inside, _ := p.resolve(choice)
			rows = append(rows, p.rows(inside, deeper)...)
		}
	}
	if others, _ := p.resolve(schema.get("additionalProperties")); others.get("properties").exists() {
		rows = append(rows, p.rows(others, prefix+"*.")...)
	}
	return rows
}
