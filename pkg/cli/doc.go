// Package cli has the commands of belfry that send requests to a server.
//
// A command that needs more than one request has a file here: push, pop, apply, explain and so on. Package noun has
// the commands that begin with a noun, such as queue list. All commands use pkg/client. No command imports packages
// of the server.
//
// # Output
//
// Without -o, the output is a table. Numbers and times in a table may be shortened. Scripts use -o json, ndjson, yaml
// or jsonpath=…, which print the complete answer of the server.
package cli
