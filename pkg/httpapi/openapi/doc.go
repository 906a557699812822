// Package openapi contains the description of the HTTP API, an OpenAPI 3.1
// document. Its sources are the YAML files: openapi.yaml is the head, and each
// other file is one part of the API with its own paths and components. A part may
// add to objects of another part: objects are merged at any depth. Two different
// values in one place are an error.
//
// A schema with x-go-type is that of a type of pkg/client/api. The type has the members, which are required unless they can be
// left out, and the comments of its fields are their descriptions. Other members of the schema, such as an enum, change or
// complete what the type says.
//
// go generate merges the parts, in the order of the tags, into openapi.json, which
// the server sends, and makes docs/http-reference.md and docs/http from them. A test fails when
// one of these files is out of date.
//
// test/contract compares the routes, and every answer of the integration tests,
// with the document.
//
// It imports no package of Belfry. pkg/httpapi, tests and scripts import it.
package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
)

//go:generate go run ../../../scripts/reference

// Sources are the parts.
//
//go:embed *.yaml
var Sources embed.FS

// Document is the merged document as JSON.
//
//go:embed openapi.json
var Document []byte

// sourceVersion is the version in the sources, which no build sets.
var sourceVersion = []byte(`"version": "unknown"`)

// WithVersion returns the document of a server of this version.
func WithVersion(version string) []byte {
	quoted, _ := json.Marshal(version) // a string is never an error
	return bytes.Replace(Document, sourceVersion, append([]byte(`"version": `), quoted...), 1)
}
