// Package openapi contains the description of the HTTP API, an OpenAPI 3.1
// document. Its sources are the YAML files. openapi.yaml is the head. Each other
// file is one part of the API with its paths and components. A part may add members
// to an object of another part, at any depth. If two parts have different values for
// the same member, that is an error.
//
// A schema with x-go-type is generated from a type of pkg/client/api. The fields of the type are the members of the schema. A
// member is required unless it can be absent. The comment of a field is the description of the member. Other members of the
// schema in the YAML file, such as an enum, replace or extend the generated schema.
//
// go generate merges the parts, in the order of the tags, into openapi.json, which
// the server sends. It generates docs/http-reference.md and docs/http too. A test fails
// when one of these files is out of date.
//
// test/contract compares the document with the routes and with every answer of the
// integration tests.
//
// The package imports no package of Belfry. pkg/httpapi, tests and scripts import it.
package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
)

//go:generate go run ../../../scripts/reference

// Sources has the YAML files.
//
//go:embed *.yaml
var Sources embed.FS

// Document is the merged document as JSON.
//
//go:embed openapi.json
var Document []byte

// sourceVersion is the version in the YAML files. WithVersion replaces it.
var sourceVersion = []byte(`"version": "unknown"`)

// WithVersion returns the document with the version of a server.
func WithVersion(version string) []byte {
	quoted, _ := json.Marshal(version) // never fails for a string
	return bytes.Replace(Document, sourceVersion, append([]byte(`"version": `), quoted...), 1)
}
