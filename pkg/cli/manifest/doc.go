// Package manifest compares a YAML file of queues and consumer groups with those of a server, and returns the
// requests that make both equal.
//
// It may import pkg/client and pkg/cli/output.
package manifest
