package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDerivedFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	files, err := derived("../..")
	require.NoError(t, err)
	written, err := filepath.Glob("../../docs/http/*")
	require.NoError(t, err)
	require.Len(t, files, 2+len(written), "docs/http contains a file that is not generated")
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is out of date: run go generate ./pkg/httpapi/openapi", name)
	}
}

// The page shows every kind of description that a document can contain.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := reference([]byte(sample))
	require.NoError(t, err)
	text := string(page)
	for _, want := range []string{
		"What all share.\n",
		"| [`POST /a/{b}`](#post-ab) | Do it |",
		"## One\n\nThe first.\n",
		"### POST /a/{b}\n\nDo it.\n\nIt is done.\n",
		"| `b` | path | integer 1–9 | Which. |",
		"| `many` | query, required | `\"x\"` or `\"y\"` | How. Default `\"x\"`. |",
		"| `n` | number ≥ 2 or null | yes | A number. |",
		"| `in` | array of object |  |  |",
		"| `in[].id` | UUID |  |  |",
		"```json\n{\"n\": 3}\n```",
		"**201** Done.\n\nHeader `Link`: Where.\n",
		"*Left*\n\n| member | type | meaning |\n|---|---|---|\n| `[].l` | `true` |  |",
		"*Right*\n\n| member | type | meaning |\n|---|---|---|\n| `[].r` | instant | Optional. When. |",
		"Also 400: see [Errors](#errors).",
		"| 400 | Bad. | `{\"error\": \"no\"}` |",
		"**200** Here too.\n\nThe same body as [`POST /a/{b}`](#post-ab).\n",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "Unused")
}

// Every link of a page leads to an existing heading, in the same page or in another one.
func TestLinksLeadToHeadings(t *testing.T) {
	t.Parallel()
	files, err := derived("../..")
	require.NoError(t, err)
	delete(files, "pkg/httpapi/openapi/openapi.json")
	headings := map[string]bool{}
	for file, page := range files {
		require.Less(t, strings.Count(string(page), "\n"), 1200, "%s has more than 1,200 lines: split it", file)
		require.Zero(t, strings.Count(string(page), "\n```")%2, "a code block of %s has no end", file)
		for _, heading := range headingLine.FindAllStringSubmatch(string(page), -1) {
			place := file + "#" + anchor(heading[1])
			require.False(t, headings[place], "the heading %q exists twice", place)
			headings[place] = true
		}
	}
	for file, page := range files {
		links := regexp.MustCompile(`\]\(([^)#]*)#([^)]*)\)`).FindAllStringSubmatch(string(page), -1)
		require.NotEmpty(t, links)
		for _, link := range links {
			target := file
			if link[1] != "" {
				target = path.Join(path.Dir(file), link[1])
			}
			require.True(t, headings[target+"#"+link[2]], "the link in %s leads to no heading: %s", file, link[0])
		}
	}
}

const sample = `{
  "info": {"description": "What all share."},
  "tags": [{"name": "One", "description": "The first."}],
  "paths": {
    "/a/{b}": {"post": {
      "tags": ["One"], "summary": "Do it", "description": "It is done.",
      "parameters": [
        {"$ref": "#/components/parameters/B"},
        {"name": "many", "in": "query", "required": true, "description": "How.", "schema": {"enum": ["x", "y"], "default": "x"}}
      ],
      "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}, "example": {"n": 3}}}},
      "responses": {
        "201": {"description": "Done.", "headers": {"Link": {"description": "Where."}}, "content": {"application/json": {
          "schema": {"type": "array", "items": {"oneOf": [{"$ref": "#/components/schemas/Left"}, {"$ref": "#/components/schemas/Right"}]}}}}},
        "400": {"$ref": "#/components/responses/Bad"}
      }
    }},
    "/c": {"get": {"tags": ["One"], "summary": "See it", "responses": {
      "200": {"description": "Here too.", "content": {"application/json": {
        "schema": {"type": "array", "items": {"oneOf": [{"$ref": "#/components/schemas/Left"}, {"$ref": "#/components/schemas/Right"}]}}}}}
    }}}
  },
  "components": {
    "parameters": {"B": {"name": "b", "in": "path", "required": true, "description": "Which.", "schema": {"type": "integer", "minimum": 1, "maximum": 9}}},
    "responses": {
      "Bad": {"description": "Bad.", "content": {"application/json": {"schema": {}, "example": {"error": "no"}}}},
      "Unused": {"description": "Unused."}
    },
    "schemas": {
      "Body": {"type": "object", "required": ["n"], "properties": {
        "n": {"type": ["number", "null"], "minimum": 2, "description": "A number."},
        "in": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}}}
      }},
      "Left": {"type": "object", "required": ["l"], "properties": {"l": {"const": true}}},
      "Right": {"type": "object", "properties": {"r": {"type": "string", "format": "date-time", "description": "When."}}}
    }
  }
}`

// A schema with x-go-type has the members and the comments of the Go type. The schema can change and add members.
func TestSchemasOfGoTypes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.go"), []byte(goSample), 0o600))
	got, err := expand([]byte(`{"components": {"schemas": {
		"Name": {"type": "string"},
		"A": {"x-go-type": "A", "properties": {"kind": {"enum": ["x"]}, "b": {"properties": {"n": {"const": 0}}}, "own": {"$ref": "#/components/schemas/Name"}}}
	}}}`), folder)
	require.NoError(t, err)
	require.JSONEq(t, `{"components": {"schemas": {
		"Name": {"type": "string"},
		"A": {"type": "object", "required": ["at", "name", "kind", "b", "list", "raw", "own"], "properties": {
			"at": {"oneOf": [{"$ref": "#/components/schemas/Millis"}, {"type": "null"}], "description": "When."},
			"name": {"$ref": "#/components/schemas/Name"},
			"kind": {"type": "string", "enum": ["x"]},
			"b": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0, "const": 0}}},
			"list": {"type": "array", "items": {"type": ["boolean", "null"]}},
			"raw": {},
			"maybe": {"type": "number", "minimum": 0},
			"own": {"$ref": "#/components/schemas/Name", "description": "Its own."}
		}}
	}}}`, string(got))
	_, err = expand([]byte(`{"x-go-type": "Missing"}`), folder)
	require.ErrorContains(t, err, "has no type Missing")
}

const goSample = `package api

type Name = string

type Base struct {
	// When.
	At *time.Time ` + "`json:\"at\"`" + `
	Name Name ` + "`json:\"name\"`" + `
}

type B struct { N int64 ` + "`json:\"n\"`" + ` }

type A struct {
	Base
	Kind string ` + "`json:\"kind\"`" + `
	B B ` + "`json:\"b\"`" + `
	List []*bool ` + "`json:\"list\"`" + `
	Raw json.RawMessage ` + "`json:\"raw\"`" + `
	Maybe *float64 ` + "`json:\"maybe,omitzero\"`" + `
	Own string ` + "`json:\"own\"`" + ` // Its own.
}
`
