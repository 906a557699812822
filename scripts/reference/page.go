package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// page is the reference under construction.
type page struct {
	strings.Builder
	root node
	// describedIn maps the schema of a response body to the endpoint that describes it.
	describedIn map[string]string
}

// endpoint is one operation of the document.
type endpoint struct {
	name string // POST /api/v1/push
	node node
}

// methods lists the members of a path that are operations.
var methods = []string{"get", "put", "post", "delete", "head", "options", "patch"}

// reference returns the page for a document.
func reference(document []byte) ([]byte, error) {
	var parsed yaml.Node
	if err := yaml.Unmarshal(document, &parsed); err != nil {
		return nil, err
	}
	p := &page{root: node{parsed.Content[0]}, describedIn: map[string]string{}}
	p.line("<!-- Made by go generate ./pkg/httpapi/openapi from the parts there: change those. -->\n")
	p.line("# HTTP reference\n")
	p.line("%s\n", p.root.get("info", "description").text())
	p.line("The same as an OpenAPI 3.1 document: `GET /openapi.json`.\n")
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
	_, _ = fmt.Fprintf(p, format+"\n", args...) // a Builder returns no error
}

// endpoints returns the operations with a tag.
func (p *page) endpoints(tag string) []endpoint {
	var found []endpoint
	for _, path := range p.root.get("paths").members() {
		for _, operation := range path.value.members() {
			tags := operation.value.get("tags").elements()
			if slices.Contains(methods, operation.name) && len(tags) > 0 && tags[0].text() == tag {
				found = append(found, endpoint{strings.ToUpper(operation.name) + " " + path.name, operation.value})
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

// anchor returns the anchor of a heading on GitHub.
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

// failures describes the error responses that many endpoints share.
func (p *page) failures() {
	p.line("## Errors\n")
	p.line("Endpoints list the statuses of these that they send.\n")
	p.line("| status | what it means, and what to do | example |\n|---|---|---|")
	statuses := map[string]string{}
	for _, path := range p.root.get("paths").members() {
		for _, operation := range path.value.members() {
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
	if body := e.node.get("requestBody"); body.is() {
		heading := "**Body**"
		if !body.get("required").isTrue() {
			heading = "**Body**, optional"
		}
		if _, text := p.resolve(body); text != "" {
			heading += ": " + strings.ReplaceAll(text, "\n", " ")
		}
		p.line("%s\n", heading)
		media := body.get("content", "application/json")
		p.tablesOf(media.get("schema"), true)
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
	for _, one := range parameters.elements() {
		parameter, description := p.resolve(one)
		in := parameter.get("in").text()
		if parameter.get("required").isTrue() && in != "path" {
			in += ", required"
		}
		schema := parameter.get("schema")
		p.line("| `%s` | %s | %s | %s |", parameter.get("name").text(), in, p.kind(schema), p.meaning(schema, description))
	}
	p.line("")
}

// tablesOf writes the tables of the members of a body.
func (p *page) tablesOf(schema node, request bool) {
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
				r.meaning = strings.TrimSpace("Not always there. " + r.meaning)
			}
			p.line("| `%s` | %s | %s |", r.name, r.kind, r.meaning)
		}
		p.line("")
	}
}

func (p *page) example(example node) {
	if example.is() {
		p.line("```json\n%s\n```\n", example.pretty(""))
	}
}

func (p *page) responses(e endpoint) {
	var shared []string
	for _, response := range e.node.get("responses").members() {
		if response.value.get("$ref").is() && !response.value.get("description").is() {
			shared = append(shared, response.name)
			continue
		}
		resolved, description := p.resolve(response.value)
		p.line("**%s** %s\n", response.name, description)
		for _, h := range resolved.get("headers").members() {
			header, meaning := p.resolve(h.value)
			if meaning != "" {
				p.line("Header `%s`: %s\n", h.name, meaning)
			} else if one := header.get("schema", "const"); one.is() {
				p.line("Header `%s`: `%s`\n", h.name, one.text())
			}
		}
		media := resolved.get("content", "application/json")
		p.answer(e, media)
	}
	if len(shared) > 0 {
		p.line("Also %s: see [Errors](#errors).\n", strings.Join(shared, ", "))
	}
}

// answer describes a response body. Later endpoints with the same body link to the first.
func (p *page) answer(e endpoint, media node) {
	if !media.is() {
		return
	}
	schema := media.get("schema")
	if key := schema.json(); strings.Contains(key, "$ref") && path.Base(schema.get("$ref").text()) != "Error" {
		if other := p.describedIn[key]; other != "" && other != e.name {
			p.line("The body is that of [`%s`](#%s).\n", other, anchor(other))
			return
		}
		if p.describedIn[key] == "" {
			p.describedIn[key] = e.name
			p.tablesOf(schema, false)
		}
	} else if !strings.Contains(key, "$ref") {
		p.tablesOf(schema, false)
	}
	p.example(media.get("example"))
}
