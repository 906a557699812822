// Package cli has the commands of belfry that speak to a server: push, pop, queue list and so on.
//
// Most of them are a verb: a table entry that says which request to send and which columns the answer has
// (verbs_*.go). The others have a file each. All are built on pkg/client, and none imports the rooms of
// the server.
//
// # Output
//
// Without -o a terminal or a pipe gets a table. Numbers and instants in it may be shortened; scripts read
// -o json, ndjson, yaml or jsonpath=…, which have everything that the server answered.
//
// # Exit codes
//
// 0: done. 1: it failed. 2: the command line is wrong, or apply --dry-run found a difference. 3: the server
// refused the token (401, 403). 4: a pop found no message.
package cli
