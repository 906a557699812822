// Package openapi holds the description of the HTTP API, an OpenAPI 3.1
// document. People write the YAML files: openapi.yaml is the head, and each
// other file is a part of the API with its own paths and components. Put
// together, in the order of the tags, they are openapi.json, which the server
// sends, and ../REFERENCE.md, the page for people; go generate makes both, and a
// test fails when one is out of date.
//
// A part may add to what another part has: objects are merged, at any depth. Two
// different values in one place are an error.
//
// It promises nothing by itself: test/contract holds the routes, and every
// answer of the integration tests, to the document. In the folder pending are
// parts whose endpoints are not served yet; a part moves up here together with
// its endpoints.
//
// It imports nothing and is for pkg/httpapi and what stands beside the house.
package openapi

import "embed"

//go:generate go run ../../../scripts/reference

// Sources are the parts.
//
//go:embed *.yaml
var Sources embed.FS

// Document is the whole, as JSON.
//
//go:embed openapi.json
var Document []byte
