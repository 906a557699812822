package contract

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tiny is a document with one example of each kind of rule.
const tiny = `{
  "openapi": "3.1.0",
  "paths": {
    "/a/{b}": {"post": {
      "parameters": [
        {"$ref": "#/components/parameters/B"},
        {"name": "n", "in": "query", "required": true, "schema": {"type": "integer"}},
        {"name": "s", "in": "query", "schema": {"type": "string", "pattern": "^[0-9]$"}},
        {"name": "l", "in": "query", "schema": {"type": "array", "items": {"type": "string", "pattern": "^[0-9]$"}}}
      ],
      "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}}},
      "responses": {
        "200": {
          "description": "Fine.",
          "headers": {"Retry-After": {"required": true, "schema": {"type": "integer", "minimum": 1}}},
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}
        },
        "204": {"description": "Nothing."},
        "400": {"$ref": "#/components/responses/Bad"}
      }
    }},
    "/a/fixed": {"post": {"responses": {"204": {"description": "Nothing."}}}},
    "/text": {"get": {"responses": {"200": {"description": "Text.", "content": {"text/plain": {"schema": {"type": "string"}}}}}}}
  },
  "components": {
    "parameters": {"B": {"name": "b", "in": "path", "required": true, "schema": {"type": "string", "maxLength": 3}}},
    "responses": {"Bad": {"description": "Bad.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}},
    "schemas": {
      "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
      "Body": {"type": "object", "properties": {"inner": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}}}},
      "Answer": {"type": "object", "required": ["id"], "properties": {
        "id": {"type": "string", "format": "uuid"},
        "success": {"type": "boolean"},
        "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": true}
      }}
    }
  }
}`

// exchange is an exchange with the document tiny. good returns a valid exchange, and each case changes it.
type exchange struct {
	method, target, sent string
	status               int
	media, retry, body   string
}

const goodAnswer = `{"id":"0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f","open":{"a":1,"b":2}}`

func good() exchange {
	return exchange{
		http.MethodPost, "/a/b%2Fc?n=1&s=7", `{"inner":[{"x":1}]}`,
		http.StatusOK, "application/json; charset=utf-8", "1", goodAnswer,
	}
}

func (e exchange) check(t *testing.T) []string {
	t.Helper()
	d, err := Parse([]byte(tiny))
	require.NoError(t, err)
	header := http.Header{"Content-Type": {e.media}}
	if e.retry != "" {
		header.Set("Retry-After", e.retry)
	}
	return d.Check(Exchange{
		Request:     httptest.NewRequest(e.method, e.target, strings.NewReader(e.sent)),
		RequestBody: []byte(e.sent), Status: e.status, Header: header, Body: []byte(e.body),
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const refused = `{"error":"no"}`
	for name, c := range map[string]struct {
		change func(e *exchange)
		want   string // a part of the only complaint; "" for a valid exchange
	}{
		"good":                      {func(*exchange) {}, ""},
		"a refusal":                 {func(e *exchange) { e.status, e.body = 400, refused }, ""},
		"nothing":                   {func(e *exchange) { e.status, e.body = 204, "" }, ""},
		"a path without parameters": {func(e *exchange) { e.target, e.status, e.body = "/a/fixed", 204, "" }, ""},
		"text":                      {func(e *exchange) { e.method, e.target, e.media, e.body = "GET", "/text", "text/plain", "{" }, ""},
		"OPTIONS":                   {func(e *exchange) { e.method, e.status, e.body = "OPTIONS", 204, "" }, ""},
		"no such path":              {func(e *exchange) { e.target, e.status, e.body = "/b", 404, refused }, ""},
		"no such method":            {func(e *exchange) { e.method, e.status, e.body = "PUT", 405, refused }, ""},
		"a refused query":           {func(e *exchange) { e.target, e.status, e.body = "/a/b?n=x&y=1", 400, refused }, ""},
		"a refused body":            {func(e *exchange) { e.sent, e.status, e.body = "{", 400, refused }, ""},
		"a refusal with 200": {func(e *exchange) {
			e.sent, e.body = "{", strings.Replace(goodAnswer, `,"open"`, `,"success":false,"open"`, 1)
		}, ""},
		"an explicit success": {func(e *exchange) {
			e.sent, e.body = `{"y":1}`, strings.Replace(goodAnswer, `,"open"`, `,"success":true,"open"`, 1)
		}, "'y'"},
		"members in another order":     {func(e *exchange) { e.body = strings.Replace(goodAnswer, "{", `{"success":true,`, 1) }, "id comes before success"},
		"an unknown path with success": {func(e *exchange) { e.target = "/b" }, "no such method and path"},
		"an unknown path, bad error":   {func(e *exchange) { e.target, e.status, e.body = "/b", 404, `{"message":"no"}` }, "error"},
		"OPTIONS with a body":          {func(e *exchange) { e.method, e.status = "OPTIONS", 204 }, "OPTIONS"},
		"a status not listed":          {func(e *exchange) { e.status = 202 }, "does not list the status 202"},
		"an unknown member":            {func(e *exchange) { e.body = `{"id":"0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f","x":1}` }, "'x'"},
		"a missing member":             {func(e *exchange) { e.body = `{}` }, "'id'"},
		"a bad format":                 {func(e *exchange) { e.body = `{"id":"x"}` }, "uuid"},
		"no JSON":                      {func(e *exchange) { e.body = `{` }, "not JSON"},
		"another type":                 {func(e *exchange) { e.media = "text/html" }, "text/html"},
		"no type":                      {func(e *exchange) { e.media = "" }, "no body of type"},
		"a body for 204":               {func(e *exchange) { e.status = 204 }, "no body"},
		"a header that is missing":     {func(e *exchange) { e.retry = "" }, "Retry-After is missing"},
		"a header that is wrong":       {func(e *exchange) { e.retry = "soon" }, "Retry-After"},
		"a bad error":                  {func(e *exchange) { e.status, e.body = 400, `{"error":1}` }, "400"},
		"an unknown parameter":         {func(e *exchange) { e.target += "&y=1" }, "no parameter y"},
		"a parameter of another type":  {func(e *exchange) { e.target = "/a/b?n=x" }, "parameter n"},
		"a list":                       {func(e *exchange) { e.target += "&l=7&l=8" }, ""},
		"a list with a bad element":    {func(e *exchange) { e.target += "&l=7&l=77" }, "parameter l"},
		"a parameter twice":            {func(e *exchange) { e.target += "&s=77" }, "parameter s"},
		"a parameter that is missing":  {func(e *exchange) { e.target = "/a/b" }, "n is missing"},
		"a path that is wrong":         {func(e *exchange) { e.target = "/a/bcde?n=1" }, "path's b"},
		"an unknown member is sent":    {func(e *exchange) { e.sent = `{"inner":[{"y":1}]}` }, "'y'"},
		"nothing sent":                 {func(e *exchange) { e.sent = "" }, "requires a body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := good()
			c.change(&e)
			complaints := e.check(t)
			if c.want == "" {
				require.Empty(t, complaints)
				return
			}
			require.Len(t, complaints, 1)
			require.Contains(t, complaints[0], c.want)
		})
	}
}

func TestRequestsMarkedUnlikeAreNotChecked(t *testing.T) {
	t.Parallel()
	d, err := Parse([]byte(tiny))
	require.NoError(t, err)
	request := httptest.NewRequest(http.MethodPost, "/a/b?n=x&y=1", strings.NewReader("{"))
	e := Exchange{
		Request: request.WithContext(Unlike(t.Context())), RequestBody: []byte("{"), Status: http.StatusOK,
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}}, Body: []byte(goodAnswer),
	}
	require.Empty(t, d.Check(e))
	e.Body = []byte(`{}`)
	require.Len(t, d.Check(e), 1, "the answer must be checked")
}

func TestInvalidDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"EOF":           `{`,
		"not an object": `[]`,
		"compiling #/c": `{"components":{"schemas":{"A":{"type":"nothing"}}}}`,
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want)
	}
}
