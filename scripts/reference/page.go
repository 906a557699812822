package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// page is the text of the reference so far. split divides it into files.
type page struct {
	strings.Builder
	root node
	// described maps the JSON of a schema to the endpoint whose section describes bodies of that schema.
	described map[string]string
}

// endpoint is one method of one path in the OpenAPI document.
type endpoint struct {
	name string // for example "POST /api/v1/push"
	node node
}

// methods are the members of a path item that describe endpoints. A path item also has other members, such as
// parameters.
var methods = []string{"get", "put", "post", "delete", "head", "options", "patch"}

// reference returns the text of the reference for an OpenAPI document. It returns an error if it cannot parse the
// document.
func reference(document []byte) ([]byte, error) {
	var parsed yaml.Node
	if err := yaml.Unmarshal(document, &parsed); err != nil {
		return nil, err
	}
	p := &page{root: node{parsed.Content[0]}, described: map[string]string{}}
	p.WriteString(generated)
	p.line("# HTTP reference\n")
	p.line("%s\n", p.root.get("info", "description").text())
	p.line("`GET /openapi.json` serves this reference as an OpenAPI 3.1 document.\n")
	p.contents()
	p.failures()
	for _, tag := range p.root.get("tags").elements() {
		p.line("## %s\n", tag.get("name").text())
		p.line("%s\n", tag.get("description").text())
		for _, e := range p.endpoints(tag.get("name").text()) {
			p.endpoint(e)
		}
	}
	return []byte(strings.TrimRight(p.String(), "\n") + "\n"), nil
}

func (p *page) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p, format+"\n", args...) // writing to a Builder never fails
}

// endpoints returns the endpoints whose first tag is tag, in the order of the document.
func (p *page) endpoints(tag string) []endpoint {
	var found []endpoint
	for _, pathItem := range p.root.get("paths").members() {
		for _, operation := range pathItem.value.members() {
			tags := operation.value.get("tags").elements()
			if slices.Contains(methods, operation.name) && len(tags) > 0 && tags[0].text() == tag {
				found = append(found, endpoint{strings.ToUpper(operation.name) + " " + pathItem.name, operation.value})
			}
		}
	}
	return found
}

func (p *page) contents() {
	p.line("| endpoint | what it does |\n|---|---|")
	for _, tag := range p.root.get("tags").elements() {
		for _, e := range p.endpoints(tag.get("name").text()) {
			p.line("| [`%s`](#%s) | %s |", e.name, anchor(e.name), e.node.get("summary").text())
		}
	}
	p.line("")
}

// anchor returns the anchor that GitHub generates for a heading.
func anchor(heading string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case strings.ContainsRune("/{}`.", r):
			return -1
		}
		return r
	}, heading)
	return strings.ToLower(kept)
}

// failures writes the section about the errors that many endpoints share.
func (p *page) failures() {
	p.line("## Errors\n")
	p.line("The section of each endpoint lists the statuses that it returns.\n")
	p.line("| status | meaning and remedy | example |\n|---|---|---|")
	statuses := map[string]string{}
	for _, pathItem := range p.root.get("paths").members() {
		for _, operation := range pathItem.value.members() {
			for _, response := range operation.value.get("responses").members() {
				if ref := response.value.get("$ref").text(); ref != "" {
					statuses[ref] = response.name
				}
			}
		}
	}
	for _, response := range p.root.get("components", "responses").members() {
		status, used := statuses["#/components/responses/"+response.name]
		if !used {
			continue
		}
		meaning := strings.ReplaceAll(response.value.get("description").text(), "\n", " ")
		p.line("| %s | %s | `%s` |", status, meaning, response.value.get("content", "application/json", "example").json())
	}
	p.line("")
}

func (p *page) endpoint(e endpoint) {
	p.line("### %s\n", e.name)
	p.line("%s.\n", e.node.get("summary").text())
	if text := e.node.get("description").text(); text != "" {
		p.line("%s\n", text)
	}
	p.parameters(e.node.get("parameters"))
	if body := e.node.get("requestBody"); body.exists() {
		heading := "**Body**"
		if !body.get("required").isTrue() {
			heading = "**Body**, optional"
		}
		if _, text := p.resolve(body); text != "" {
			heading += ": " + strings.ReplaceAll(text, "\n", " ")
		}
		p.line("%s\n", heading)
		media := body.get("content", "application/json")
		p.writeTables(media.get("schema"), true)
		p.example(media.get("example"))
	}
	p.responses(e)
}

func (p *page) parameters(parameters node) {
	if len(parameters.elements()) == 0 {
		return
	}
	p.line("**Parameters**\n")
	p.line("| name | in | type | meaning |\n|---|---|---|---|")
	for _, named := range parameters.elements() {
		parameter, description := p.resolve(named)
		in := parameter.get("in").text()
		if parameter.get("required").isTrue() && in != "path" {
			in += ", required"
		}
		schema := parameter.get("schema")
		p.line("| `%s` | %s | %s | %s |", parameter.get("name").text(), in, p.kind(schema), p.meaning(schema, description))
	}
	p.line("")
}

// writeTables writes the tables of a body, one row for each member. A request body has a column "required".
func (p *page) writeTables(schema node, request bool) {
	for _, t := range p.tables(schema) {
		if t.title != "" {
			p.line("*%s*\n", t.title)
		}
		if request {
			p.line("| member | type | required | meaning |\n|---|---|---|---|")
		} else {
			p.line("| member | type | meaning |\n|---|---|---|")
		}
		for _, r := range t.rows {
			if request {
				p.line("| `%s` | %s | %s | %s |", r.name, r.kind, r.required, r.meaning)
				continue
			}
			if r.required == "" {
				r.meaning = strings.TrimSpace("Optional. " + r.meaning)
			}
			p.line("| `%s` | %s | %s |", r.name, r.kind, r.meaning)
		}
		p.line("")
	}
}

func (p *page) example(example node) {
	if example.exists() {
		p.line("```json\n%s\n```\n", example.pretty(""))
	}
}

func (p *page) responses(e endpoint) {
	var shared []string
	for _, response := range e.node.get("responses").members() {
		if response.value.get("$ref").exists() && !response.value.get("description").exists() {
			shared = append(shared, response.name)
			continue
		}
		resolved, description := p.resolve(response.value)
		p.line("**%s** %s\n", response.name, description)
		for _, h := range resolved.get("headers").members() {
			header, meaning := p.resolve(h.value)
			if meaning != "" {
				p.line("Header `%s`: %s\n", h.name, meaning)
			} else if constant := header.get("schema", "const"); constant.exists() {
				p.line("Header `%s`: `%s`\n", h.name, constant.text())
			}
		}
		media := resolved.get("content", "application/json")
		p.responseBody(e, media)
	}
	if len(shared) > 0 {
		p.line("Also %s: see [Errors](#errors).\n", strings.Join(shared, ", "))
	}
}

// responseBody describes the body of a response in the section of the first endpoint that sends it. The sections of
// later endpoints link to that section.
func (p *page) responseBody(e endpoint, media node) {
	if !media.exists() {
		return
	}
	schema := media.get("schema")
	if key := schema.json(); strings.Contains(key, "$ref") && path.Base(schema.get("$ref").text()) != "Error" {
		if other := p.described[key]; other != "" && other != e.name {
			p.line("The same body as [`%s`](#%s).\n", other, anchor(other))
			return
		}
		if p.described[key] == "" {
			p.described[key] = e.name
			p.writeTables(schema, false)
		}
	} else if !strings.Contains(key, "$ref") {
		p.writeTables(schema, false)
	}
	p.example(media.get("example"))
}
