// Package manifest compares the queues, consumer groups and schedules of a YAML file with those of a server. It returns the requests
// that change the server as the file says.
//
// The package imports only pkg/client, its packages, and pkg/cli/output.
package manifest
