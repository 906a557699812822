package contract

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// served returns the document that the server sends.
func served(t *testing.T) *Document {
	t.Helper()
	d, err := loadOnce()
	require.NoError(t, err)
	return d
}

var loadOnce = sync.OnceValues(Load)

// TestDocumentIsOpenAPI checks the document against the schema of OpenAPI 3.1 in testdata. Document.compile checks the
// schemas inside the document.
func TestDocumentIsOpenAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/oas-3.1-schema.json")
	require.NoError(t, err)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("oas.json", parsed))
	schema, err := compiler.Compile("oas.json")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(served(t).root))
	require.Error(t, schema.Validate(object{"openapi": "3.1.0"}))
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	d := served(t)
	examples := 0
	walk(d.root, "#", func(value any, pointer string) {
		node, _ := value.(object)
		if _, ok := node["schema"].(object); ok {
			if example, ok := node["example"]; ok {
				examples++
				require.Empty(t, d.checkValue("the example", pointer+"/schema", example), "%s", pointer)
			}
		}
		if schema, ok := d.schemas[pointer]; ok {
			list, _ := node["examples"].([]any)
			if fallback, ok := node["default"]; ok {
				list = append(list, fallback)
			}
			for _, example := range list {
				examples++
				require.NoError(t, schema.Validate(example), "%s", pointer)
			}
		}
	})
	require.Greater(t, examples, 20)
}

// TestOperationsAreComplete requires the parts of an operation that readers of the API reference expect.
func TestOperationsAreComplete(t *testing.T) {
	t.Parallel()
	d := served(t)
	ids, tags := map[string]bool{}, map[string]bool{}
	list, _ := d.root["tags"].([]any)
	for _, tag := range list {
		tagged, _ := tag.(object)
		tags[fmt.Sprint(tagged["name"])] = true
	}
	for _, o := range d.operations {
		at := o.method + " " + o.path
		require.NotEmpty(t, o.node["summary"], at)
		require.False(t, strings.HasSuffix(fmt.Sprint(o.node["summary"]), "."), at)
		id := fmt.Sprint(o.node["operationId"])
		require.False(t, ids[id], "%s: the operationId %s is used twice", at, id)
		ids[id] = true
		own, _ := o.node["tags"].([]any)
		require.Len(t, own, 1, at)
		require.True(t, tags[fmt.Sprint(own[0])], "%s: %v is not among the tags of the document", at, own[0])
		requirePathParameters(t, d, o)
		for status, response := range child(o.node, "responses") {
			node, _ := response.(object)
			resolved, _ := d.resolve(node, "")
			require.NotEmpty(t, resolved["description"], "%s: %s", at, status)
			for media, content := range child(resolved, "content") {
				body, _ := content.(object)
				require.Contains(t, body, "example", "%s: %s %s", at, status, media)
			}
		}
		if body, ok := o.node["requestBody"].(object); ok {
			resolved, _ := d.resolve(body, "")
			require.Contains(t, child(child(resolved, "content"), "application/json"), "example", at)
		}
		requireSharedAnswers(t, o, at)
	}
}

// requireSharedAnswers requires the error answers that every route of the same kind can give.
func requireSharedAnswers(t *testing.T, o *operation, at string) {
	t.Helper()
	answers := child(o.node, "responses")
	if _, ok := o.node["requestBody"]; ok {
		for _, status := range []string{"400", "408", "413", "415"} {
			require.Contains(t, answers, status, at)
		}
	}
	if o.method != "GET" && o.method != "HEAD" || strings.HasPrefix(o.path, "/api/v1/pop") {
		require.Contains(t, answers, "403", "%s: a request from a page of another origin", at)
	}
	if o.path != "/livez" {
		require.Contains(t, answers, "503", "%s: a server that is starting", at)
	}
}

func requirePathParameters(t *testing.T, d *Document, o *operation) {
	t.Helper()
	var named, spelled []string
	d.parameters(o, func(parameter object, _ string) {
		require.NotEmpty(t, parameter["description"], "%s: %v", o.path, parameter["name"])
		if parameter["in"] == "path" {
			named = append(named, fmt.Sprintf("{%v}", parameter["name"]))
			require.Equal(t, true, parameter["required"])
		}
	})
	for _, step := range o.steps {
		if isParameter(step) {
			spelled = append(spelled, step)
		}
	}
	require.ElementsMatch(t, spelled, named, o.path)
}

// TestReferencesAreValid requires that each reference leads to a component and that each component is used.
func TestReferencesAreValid(t *testing.T) {
	t.Parallel()
	d := served(t)
	used := map[string]bool{}
	walk(d.root, "#", func(value any, pointer string) {
		node, _ := value.(object)
		require.NotContains(t, node, "allOf", "%s: the checks close each object on its own, so allOf cannot combine objects", pointer)
		if target, ok := node["$ref"].(string); ok {
			require.NotNil(t, d.at(target), "%s does not exist", target)
			used[target] = true
		}
	})
	alternatives, _ := d.root["security"].([]any)
	for _, alternative := range alternatives {
		schemes, _ := alternative.(object)
		for scheme := range schemes {
			used["#/components/securitySchemes/"+escape(scheme)] = true
		}
	}
	for kind, members := range child(d.root, "components") {
		named, _ := members.(object)
		for component := range named {
			pointer := "#/components/" + kind + "/" + escape(component)
			require.True(t, used[pointer], "%s is not used", pointer)
		}
	}
}
