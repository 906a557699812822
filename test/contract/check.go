package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Exchange is one request and its answer.
type Exchange struct {
	Request     *http.Request
	RequestBody []byte
	Status      int
	Header      http.Header
	Body        []byte
}

// unlike marks the context of requests that may break the document.
type unlike struct{}

// Unlike returns a context for requests that the document does not describe. Check does not check such a request, but it
// checks the answer.
func Unlike(ctx context.Context) context.Context { return context.WithValue(ctx, unlike{}, true) }

// succeeded reports whether the server accepted the request. A rejected transaction has the status 200, and its body has
// success: false.
func (e Exchange) succeeded() bool {
	var body struct{ Success *bool }
	if err := json.Unmarshal(e.Body, &body); err == nil && body.Success != nil && !*body.Success {
		return false
	}
	return e.Status < http.StatusMultipleChoices
}

// Check returns the differences between an exchange and the document.
func (d *Document) Check(e Exchange) []string {
	o := d.operation(e.Request)
	switch {
	case e.Request.Method == http.MethodOptions:
		return d.checkNothing(e)
	case o == nil:
		return d.checkUnknown(e)
	}
	complaints := d.checkAnswer(o, e)
	if e.succeeded() && e.Request.Context().Value(unlike{}) == nil {
		complaints = append(complaints, d.checkQuery(o, e.Request.URL.Query())...)
		complaints = append(complaints, d.checkPath(o, e.Request.URL.EscapedPath())...)
		complaints = append(complaints, d.checkRequestBody(o, e.RequestBody)...)
	}
	return complaints
}

// checkNothing checks the answer to OPTIONS, which the document does not describe. It must be 204 without a body.
func (d *Document) checkNothing(e Exchange) []string {
	if e.Status != http.StatusNoContent || len(e.Body) > 0 {
		return []string{fmt.Sprintf("OPTIONS must be answered with 204 and no body, not with %d", e.Status)}
	}
	return nil
}

// checkUnknown checks the answer to an unknown method or path. The answer must be an error.
func (d *Document) checkUnknown(e Exchange) []string {
	if e.Status != http.StatusNotFound && e.Status != http.StatusMethodNotAllowed {
		return []string{fmt.Sprintf("the document has no such method and path, so the status must be 404 or 405, not %d", e.Status)}
	}
	return d.checkJSON("the error", "#/components/schemas/Error", e.Body)
}

func (d *Document) checkAnswer(o *operation, e Exchange) []string {
	status := strconv.Itoa(e.Status)
	pointer := o.pointer + "/responses/" + status
	node, ok := child(o.node, "responses")[status].(object)
	if !ok {
		return []string{"the document does not list the status " + status}
	}
	response, pointer := d.resolve(node, pointer)
	complaints := d.checkHeaders(response, pointer, e.Header)
	content := child(response, "content")
	if len(content) == 0 {
		if len(e.Body) > 0 {
			complaints = append(complaints, "the document describes for status "+status+" no body")
		}
		return complaints
	}
	media, _, err := mime.ParseMediaType(e.Header.Get("Content-Type"))
	if _, ok := content[media]; !ok || err != nil {
		return append(complaints, fmt.Sprintf("the document describes for status %s no body of type %q", status, e.Header.Get("Content-Type")))
	}
	if media != "application/json" {
		return complaints
	}
	schema := pointer + "/content/" + escape(media) + "/schema"
	complaints = append(complaints, d.checkOrder(schema, e.Body)...)
	return append(complaints, d.checkJSON("the answer "+status, schema, e.Body)...)
}

func (d *Document) checkHeaders(response object, pointer string, sent http.Header) []string {
	var complaints []string
	for name := range child(response, "headers") {
		header, at := d.resolve(child(child(response, "headers"), name), pointer+"/headers/"+escape(name))
		switch value := sent.Get(name); {
		case value != "":
			complaints = append(complaints, d.checkText("the header "+name, header, at, value)...)
		case header["required"] == true:
			complaints = append(complaints, "the header "+name+" is missing")
		}
	}
	return complaints
}

// parameters calls visit for each parameter of the operation.
func (d *Document) parameters(o *operation, visit func(parameter object, pointer string)) {
	list, _ := o.node["parameters"].([]any)
	for i, one := range list {
		node, _ := one.(object)
		visit(d.resolve(node, fmt.Sprintf("%s/parameters/%d", o.pointer, i)))
	}
}

func (d *Document) checkQuery(o *operation, query url.Values) []string {
	var complaints []string
	known := map[string]bool{}
	d.parameters(o, func(parameter object, pointer string) {
		name, _ := parameter["name"].(string)
		if parameter["in"] != "query" {
			return
		}
		known[name] = true
		for _, value := range query[name] {
			complaints = append(complaints, d.checkText("the parameter "+name, parameter, pointer, value)...)
		}
		if parameter["required"] == true && !query.Has(name) {
			complaints = append(complaints, "the parameter "+name+" is missing")
		}
	})
	for name := range query {
		if !known[name] {
			complaints = append(complaints, "the document has no parameter "+name)
		}
	}
	return complaints
}

func (d *Document) checkPath(o *operation, path string) []string {
	var complaints []string
	steps := strings.Split(path, "/")
	d.parameters(o, func(parameter object, pointer string) {
		name, _ := parameter["name"].(string)
		at := slices.Index(o.steps, "{"+name+"}")
		if parameter["in"] != "path" || at < 0 {
			return
		}
		value, err := url.PathUnescape(steps[at])
		if err != nil {
			complaints = append(complaints, fmt.Sprintf("the path's %s: %v", name, err))
			return
		}
		complaints = append(complaints, d.checkText("the path's "+name, parameter, pointer, value)...)
	})
	return complaints
}

func (d *Document) checkRequestBody(o *operation, body []byte) []string {
	node, ok := o.node["requestBody"].(object)
	if !ok {
		return nil // the server does not read the body
	}
	request, pointer := d.resolve(node, o.pointer+"/requestBody")
	if len(body) == 0 {
		if request["required"] == true {
			return []string{"the document requires a body"}
		}
		return nil
	}
	return d.checkJSON("the request", pointer+"/content/application~1json/schema", body)
}

// checkText checks the text of a query parameter, a path parameter or a header. It first converts the text to the type in
// the schema.
func (d *Document) checkText(what string, node object, pointer, text string) []string {
	var value any = text
	schema, _ := d.resolve(child(node, "schema"), "")
	if kind := schema["type"]; kind == "integer" || kind == "number" || kind == "boolean" {
		if parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(text)); err == nil {
			value = parsed
		}
	} else if kind == "array" { // the parameter is repeated for each element
		value = []any{text}
	}
	return d.checkValue(what, pointer+"/schema", value)
}

func (d *Document) checkJSON(what, pointer string, body []byte) []string {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return []string{fmt.Sprintf("%s is not JSON: %v", what, err)}
	}
	return d.checkValue(what, pointer, value)
}

func (d *Document) checkValue(what, pointer string, value any) []string {
	schema, ok := d.schemas[pointer]
	if !ok {
		return []string{fmt.Sprintf("%s: the document has no schema at %s", what, pointer)}
	}
	err := schema.Validate(value)
	if err == nil {
		return nil
	}
	var failed *jsonschema.ValidationError
	if errors.As(err, &failed) {
		return []string{fmt.Sprintf("%s: %v", what, failed)}
	}
	return []string{fmt.Sprintf("%s: %v", what, err)}
}
