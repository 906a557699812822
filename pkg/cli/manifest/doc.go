// Package manifest compares the queues and consumer groups of a YAML file with the queues and groups of a server. It
// returns the requests that change the server as the file says.
//
// The package imports only pkg/client and pkg/cli/output.
package manifest
