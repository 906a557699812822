// Package httpapi serves Belfry's HTTP API, wire-compatible with Queen MQ 0.15.
// It is the only room that knows echo, JSON shapes and status codes: it reads a
// request, calls the verb, and writes the answer.
//
// It promises that
//
//   - a payload leaves byte for byte as it came: key order, number text,
//     escapes and white space inside it. A \u0000 inside a payload is kept too;
//     only SQL that turns that very string into text refuses it. In a name or a
//     transaction id a NUL is refused with 400;
//   - bad input gets a 400 that names the field and says what to change, and
//     nothing of that request is stored;
//   - an error the server did not expect is a 500 with an id; its text is in
//     the log under that id and never in the answer;
//   - a delivery that could not be written to its client is released at once.
//
// Statuses are the intended ones of the wire contract: 201 for a push, 204
// without a body for an empty pop, 503 with Retry-After when the database is
// away. Routes are in routes.go, the table from error code to status in
// errors.go. What each route takes and answers is written in openapi, the
// document behind GET /openapi.json, and for people in REFERENCE.md.
//
// It declares the verbs it needs. Importable from floor 5 upwards.
package httpapi
