// Package wire reads HTTP requests and writes HTTP answers for the packages of
// pkg/httpapi. It reads bodies, JSON values, parameters and instants, and it maps
// error codes to statuses. Its readers follow the rules for clients of Queen MQ in
// docs/compatibility.md.
//
// It promises that
//
//   - every error it returns for bad input is a queue.Error with CodeInvalid
//     that names the field, or CodeTooLarge for a body above the limit;
//   - a name it accepts is UTF-8 without NUL and at most queue.MaxNameBytes
//     long, so that Postgres can store it.
//
// It knows no verb. Only packages of pkg/httpapi import it.
package wire
