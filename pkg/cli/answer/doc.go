// Package answer prints answers of the server as text for people. It handles the answers that a table cannot show
// well.
//
// The package imports only pkg/cli/output and pkg/client/api. pkg/cli imports it.
package answer
