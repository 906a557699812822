// Package httpapi serves Belfry's HTTP API. docs/compatibility.md describes the
// compatibility with Queen MQ 0.15.
//
// It has the server, the route table in routes.go, error answers, metrics and health.
// The handlers are in four packages. data has the routes of producers and consumers. operate has the
// routes with which operators change state. observe has the routes that only read. queen has the routes
// that exist only for clients of Queen MQ. All four read requests with the package wire. Only these
// packages use echo, JSON and status codes.
//
// It promises:
//
//   - Bad input gets a 400 that names the field and says what to change. The server
//     stores nothing of the request.
//   - An unexpected error gets a 500 with an id. The log has the error text under
//     the id. The answer never contains the error text.
//
// The package openapi has a document that describes the requests and answers of each route. GET
// /openapi.json serves it. docs/http-reference.md and docs/http are generated from it.
package httpapi
