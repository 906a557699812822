// Package wire reads HTTP requests and writes HTTP answers for the packages of
// pkg/httpapi. It reads bodies, JSON values, parameters and instants, and it maps
// error codes to statuses. Its readers follow the rules for clients of Queen MQ in
// docs/compatibility.md.
//
// It promises:
//
//   - The error for bad input is a queue.Error. It has CodeInvalid and names the
//     field, or CodeTooLarge for a body above the limit.
//   - A name that it accepts is UTF-8 without NUL and has at most
//     queue.MaxNameBytes, so that Postgres can store it.
//
// It contains no code for single routes. Only packages of pkg/httpapi import it.
package wire
