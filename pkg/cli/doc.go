// Package cli has the commands of belfry that speak to a server.
//
// The commands that are more than one request have a file here: push, pop, apply, explain and so on. Package noun has those
// that begin with a noun, such as queue list. All are built on pkg/client, and none imports the packages of the server.
//
// # Output
//
// Without -o a terminal or a pipe gets a table. Numbers and instants in it may be shortened; scripts read
// -o json, ndjson, yaml or jsonpath=…, which have everything that the server answered.
package cli
