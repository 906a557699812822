// Package manifest compares a YAML file of queues and consumer groups with what a server has, and returns the
// requests that make both equal.
//
// It may import pkg/client and pkg/cli/output.
package manifest
