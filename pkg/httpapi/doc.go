// Package httpapi serves Belfry's HTTP API. docs/compatibility.md describes how
// far it is compatible with Queen MQ 0.15.
//
// It is the frame: the server, the route table in routes.go, error answers,
// metrics and health. The handlers are in four packages: data for producers and consumers, operate for
// what operators change, observe for what only reads, and queen for what exists only because Queen MQ has it.
// All read requests with the package wire. Only these packages know echo, JSON shapes and status codes.
//
// It promises that
//
//   - bad input gets a 400 that names the field and says what to change, and
//     nothing of that request is stored;
//   - an unexpected error is a 500 with an id. The log has the error text under
//     that id, and the answer never contains the text.
//
// The package openapi describes what each route accepts and answers. GET
// /openapi.json serves that document, and docs/http-reference.md and docs/http are made from it.
package httpapi
