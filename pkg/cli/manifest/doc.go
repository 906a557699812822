// Package manifest compares queues, consumer groups and schedules of a YAML file with the server. It returns the requests that change
// the server as the file says.
//
// The package imports only pkg/client, its packages, and pkg/cli/output.
package manifest
